"""Programs that some tests need and a fresh machine need not have: a test without one skips, and fails where CI=true."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def need_program(name: str, why: str) -> str:
    """The path of a program; without it the test skips with `why`, unless this is CI, where it fails."""
    found = shutil.which(name)
    if found is None:
        cannot(f"{name} is needed {why}")
    return found


def cannot(reason: str) -> NoReturn:
    """This machine cannot run the test: skip it, and fail it where CI=true."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
