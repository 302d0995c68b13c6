"""Names of objects: any script, one form, never a path."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingxi.domain.object_names import normalise_object_name


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "photo 1.jpg",
        "2026/12/01/DSC_0001.JPG",
        "照片.jpg",
        "صورة.jpg",
        "👨‍👩‍👧‍👦.heic",
        "a\\b",
        "...",
        ".hidden",
        "x" * 255,
        "é" * 255,
    ],
)
def test_any_script_is_a_name(name: str) -> None:
    assert normalise_object_name(name) == unicodedata.normalize("NFC", name)


def test_both_forms_of_a_letter_are_one_name() -> None:
    assert (
        normalise_object_name("U\u0308nal e\u0301.jpg") == normalise_object_name("Ünal é.jpg") == "Ünal é.jpg"
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "empty"),
        ("x" * 256, "255 characters"),
        ("x" * 100_000, "255 characters"),
        ("😀" * 255 + "", None),  # 255 characters, 1,020 bytes
        ("a\x00b", "U\\+0000"),
        ("a\nb", "control character"),
        ("a\x7fb", "control character"),
        ("a\u2028b", "line break"),
        ("a\ud800b", "surrogate"),
        ("/etc/passwd", "empty segment"),
        ("a//b", "empty segment"),
        ("a/", "empty segment"),
        ("../../etc/passwd", "segment '\\.\\.'"),
        ("a/../b", "segment '\\.\\.'"),
        ("a/./b", "segment '\\.'"),
        (".", "segment '\\.'"),
        ("..", "segment '\\.\\.'"),
    ],
)
def test_what_is_no_name_is_refused_by_what_is_wrong(name: str, says: str | None) -> None:
    if says is None:
        assert normalise_object_name(name) == name
        return
    with pytest.raises(ValueError, match=says):
        normalise_object_name(name)


def test_the_limit_is_that_of_the_normalised_name() -> None:
    """A name may become longer in NFC: this letter is excluded from composition."""
    name = "\u0958" * 200  # each becomes two code points
    with pytest.raises(ValueError, match="255 characters"):
        normalise_object_name(name)


@given(st.text(max_size=300))
def test_a_normalised_name_is_in_its_final_form(name: str) -> None:
    try:
        final = normalise_object_name(name)
    except ValueError:
        return
    assert normalise_object_name(final) == final
    assert 0 < len(final) <= 255
    assert len(final.encode()) <= 1020
