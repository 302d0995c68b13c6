"""Groups of photos that look alike: connected parts, the best first, the same whatever order the pairs come in."""

from __future__ import annotations

import random
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from lingxi.domain.duplicates import Face, Pair, groups_of, near_values


def uid(number: int) -> UUID:
    return UUID(int=number)


def face(number: int, pixels: int = 1, sharpness: float = 1.0, size_bytes: int = 1) -> Face:
    return Face(uid(number), pixels, sharpness, size_bytes, number, b"")


def near(first: int, second: int) -> Pair:
    return Pair(uid(first), uid(second), True, False)


def burst(first: int, second: int) -> Pair:
    return Pair(uid(first), uid(second), False, True)


def test_the_best_is_larger_then_sharper_then_of_more_bytes_then_first() -> None:
    faces = [face(1), face(2, sharpness=9), face(3, pixels=2), face(4, size_bytes=2), face(5)]
    (group,) = groups_of([near(n, n + 1) for n in range(1, 5)], {one.photo_id: one for one in faces})
    assert [one.upload_number for one in group.faces] == [3, 2, 4, 1, 5]


def test_a_burst_of_duplicates_alone_is_told_once() -> None:
    faces = {uid(n): face(n) for n in range(1, 8)}
    copies = [near(1, 2), Pair(uid(1), uid(2), True, True)]
    assert [group.kind for group in groups_of(copies, faces)] == ["duplicate"]
    mixed = [near(1, 2), near(3, 4), burst(2, 3), burst(5, 6)]
    assert [(g.kind, g.place[0], len(g.faces)) for g in groups_of(mixed, faces)] == [
        ("duplicate", 1, 2),
        ("burst", 2, 2),
        ("duplicate", 3, 2),
        ("burst", 5, 2),
    ]


def test_who_is_not_there_any_more_joins_nobody() -> None:
    faces = {uid(n): face(n) for n in (1, 3)}
    assert groups_of([near(1, 2), near(2, 3)], faces) == []


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12), st.booleans()), max_size=20), st.integers())
def test_groups_are_the_connected_parts_in_one_order(links: list[tuple[int, int, bool]], seed: int) -> None:
    faces = {uid(n): face(n) for n in range(1, 13)}
    pairs = [Pair(uid(a), uid(b), kind, not kind) for a, b, kind in links if a != b]
    groups = groups_of(pairs, faces)
    places = [group.place for group in groups]
    assert places == sorted(set(places))
    for pair in pairs:
        if pair.is_near:
            (own,) = [g for g in groups if g.kind == "duplicate" and faces[pair.first_id] in g.faces]
            assert faces[pair.second_id] in own.faces
    random.Random(seed).shuffle(pairs)
    turned = [Pair(pair.second_id, pair.first_id, pair.is_near, pair.is_burst) for pair in pairs]
    assert groups_of(turned, faces) == groups


@given(st.integers(0, 65535), st.integers(0, 15))
def test_a_band_is_looked_for_with_one_bit_more_or_less(band: int, bit: int) -> None:
    values = near_values(band)
    assert len(set(values)) == 17
    assert band in values and band ^ 1 << bit in values
