"""Groups of photos that look alike: how near two of them must be, and which of a group is the best."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

NEAR_BITS: Final = 7  # of 64, of the perceptual hashes; the index is made for no more
NEAR_DIFFERENCE_BITS: Final = 10  # of 64, of the difference hashes
BURST_SECONDS: Final = 3.0
BURST_BITS: Final = (
    18  # of the perceptual hashes; pictures that have nothing in common differ in 32 or so, seldom in 22
)
MAX_LINKS: Final = 16  # that a photo keeps of each kind

Kind = Literal["duplicate", "burst"]


@dataclass(frozen=True, slots=True)
class Face:
    """What tells which photo of a group is the best; `pixels` are the original's."""

    photo_id: UUID
    pixels: int
    sharpness: float
    size_bytes: int
    upload_number: int
    thumb_hash: bytes

    def rank(self) -> tuple[float, ...]:
        """Smaller is better: larger, then sharper, then of more bytes, then uploaded first."""
        return (-self.pixels, -self.sharpness, -self.size_bytes, self.upload_number)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two photos of one album."""

    first_id: UUID
    second_id: UUID
    is_near: bool
    is_burst: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Photos that belong together, the best one first."""

    kind: Kind
    faces: tuple[Face, ...]

    @property
    def place(self) -> tuple[int, str]:
        """Groups are listed by their first upload; no two of a kind have the same."""
        return min(face.upload_number for face in self.faces), self.kind


def groups_of(pairs: Sequence[Pair], faces: Mapping[UUID, Face]) -> list[Group]:
    """All groups in their order. A burst whose photos are all in one group of duplicates is not told again."""
    known = [pair for pair in pairs if pair.first_id in faces and pair.second_id in faces]
    near = _joined((pair.first_id, pair.second_id) for pair in known if pair.is_near)
    bursts = _joined((pair.first_id, pair.second_id) for pair in known if pair.is_burst)
    owner = {photo_id: number for number, group in enumerate(near) for photo_id in group}
    bursts = [group for group in bursts if len({owner.get(photo_id, photo_id) for photo_id in group}) > 1]
    kinds: tuple[tuple[Kind, list[list[UUID]]], ...] = (("duplicate", near), ("burst", bursts))
    groups = [
        Group(kind, tuple(sorted((faces[one] for one in group), key=Face.rank)))
        for kind, some in kinds
        for group in some
    ]
    return sorted(groups, key=lambda group: group.place)


def _joined(links: Iterable[tuple[UUID, UUID]]) -> list[list[UUID]]:
    """The connected parts."""
    above: dict[UUID, UUID] = {}

    def top(one: UUID) -> UUID:
        above.setdefault(one, one)
        while above[one] != one:
            above[one] = above[above[one]]
            one = above[one]
        return one

    for first, second in links:
        above[top(first)] = top(second)
    parts: dict[UUID, list[UUID]] = defaultdict(list)
    for one in list(above):
        parts[top(one)].append(one)
    return list(parts.values())


def near_values(band: int) -> list[int]:
    """The values of 16 bits that differ from it in at most one."""
    return [band, *(band ^ 1 << bit for bit in range(16))]
