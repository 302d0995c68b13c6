"""The committed OpenAPI document is the code's, and breaks nothing that was released."""

from __future__ import annotations

from pathlib import Path

import pytest

from lingxi.api import openapi


def test_openapi_document(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(__file__).parents[2] / "openapi"
    assert openapi.main(["--check", "--folder", str(folder)]) == 0, capsys.readouterr().err
