"""What can be asked of any benchmark."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """`quick`: small sizes, to see that it works; speed is then not judged. `runs`: rounds instead of the default."""

    quick: bool = False
    runs: int | None = None
