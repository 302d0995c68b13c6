"""A stream token opens one task's stream for some minutes, and nothing else."""

from __future__ import annotations

import base64
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingxi.stream import tokens
from lingxi.stream.tokens import StreamGrant, StreamTokens

GRANT = StreamGrant(uuid4(), uuid4(), uuid4())
SIGNER = StreamTokens(["secret"])
TEXT, EXPIRES_AT = SIGNER.sign(
    GRANT, lifetime_seconds=86_400
)  # made when tests are collected: good for the whole run


def test_what_was_signed_comes_back() -> None:
    assert SIGNER.verify(TEXT, GRANT.task_id) == GRANT
    assert TEXT.isascii() and not set(TEXT) & set("+/=%&?#")


def test_it_is_for_one_task() -> None:
    assert SIGNER.verify(TEXT, uuid4()) is None


def test_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens.time, "time", lambda: EXPIRES_AT - 0.5)
    assert SIGNER.verify(TEXT, GRANT.task_id) == GRANT
    monkeypatch.setattr(tokens.time, "time", lambda: float(EXPIRES_AT))
    assert SIGNER.verify(TEXT, GRANT.task_id) is None


def test_secrets_can_be_changed() -> None:
    rotated = StreamTokens(["new", "secret"])
    assert rotated.verify(TEXT, GRANT.task_id) == GRANT
    assert SIGNER.verify(rotated.sign(GRANT)[0], GRANT.task_id) is None
    assert StreamTokens(["new"]).verify(TEXT, GRANT.task_id) is None
    with pytest.raises(ValueError, match="secret"):
        StreamTokens([])


@given(index=st.integers(0, 84), bit=st.integers(0, 7))
def test_no_bit_of_it_can_be_changed(index: int, bit: int) -> None:
    raw = bytearray(base64.urlsafe_b64decode(TEXT + "=="))
    raw[index] ^= 1 << bit
    assert SIGNER.verify(base64.urlsafe_b64encode(raw).rstrip(b"=").decode(), GRANT.task_id) is None


@given(st.text(max_size=200))
def test_nonsense_is_refused(text: str) -> None:
    assert SIGNER.verify(text, GRANT.task_id) is None


@pytest.mark.parametrize("text", ["", TEXT[:-1], TEXT + "A", TEXT + "=", " " + TEXT[1:], "é" * len(TEXT)])
def test_cut_or_longer_is_refused(text: str) -> None:
    assert SIGNER.verify(text, GRANT.task_id) is None
