"""Names of uploaded files: whatever comes, one clean line is kept, and never a folder."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingxi.domain.file_names import MAX_CHARACTERS, UNNAMED, shown_file_name


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        (b"IMG_0001.JPG", "IMG_0001.JPG"),
        ("Größe “x” \\ 😀.jpg".replace("\\ ", "").encode(), "Größe “x” 😀.jpg"),
        ("U\u0308nal e\u0301.jpg", "\u00dcnal \u00e9.jpg"),  # a Mac's form and the other one are one name
        ("صورة.jpg", "صورة.jpg"),
        ("👩‍👩‍👧‍👦.jpg", "👩‍👩‍👧‍👦.jpg"),  # joiners stay
        ("photo\u202egpj.exe", "photogpj.exe"),
        (b"a\x00b\r\nc\x7f.jpg", "abc.jpg"),
        (b"../../etc/passwd", "passwd"),
        (b"C:\\Users\\me\\x.jpg", "x.jpg"),
        (b"100CANON/IMG_2.JPG", "IMG_2.JPG"),
        (b"\xff\xfe.jpg", "\ufffd\ufffd.jpg"),
        (b"say %22cheese%22%0D%0A.jpg", 'say "cheese".jpg'),
        ("\ud83d.jpg", "?.jpg"),
        (b"", UNNAMED),
        (None, UNNAMED),
        (b"   ", UNNAMED),
        (b"..", UNNAMED),
        (b"a/", UNNAMED),
        (b"\x00\x01", UNNAMED),
    ],
)
def test_what_is_kept(given_name: bytes | str | None, kept: str) -> None:
    assert shown_file_name(given_name) == kept


def test_a_long_name_keeps_its_beginning_and_its_suffix() -> None:
    kept = shown_file_name(b"x" * 4096 + b".jpeg")
    assert len(kept) == MAX_CHARACTERS and kept.startswith("xxx") and kept.endswith("….jpeg")
    assert len(shown_file_name("é" * 4096)) == MAX_CHARACTERS
    assert len(shown_file_name("a." + "b" * 4096)) == MAX_CHARACTERS


@given(st.one_of(st.binary(max_size=600), st.text(max_size=600)))
def test_any_name_is_one_short_clean_line_and_stays_as_it_is(name: bytes | str) -> None:
    kept = shown_file_name(name)
    assert 1 <= len(kept) <= MAX_CHARACTERS
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in kept)
    assert not set(kept) & {"/", "\\"} and kept.strip(". ") != ""
    kept.encode()
