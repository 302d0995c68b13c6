"""How a decoder process is started."""

from typing import Final

from lingxi.imaging.child import MAX_VARIANT_BYTES
from lingxi.sandbox.host import Child, ChildLimits

_ENVIRONMENT: Final = {
    "MALLOC_ARENA_MAX": "2",  # memory stays flat over hundreds of photos; without it, it creeps
    # Keep a photo's worth of freed memory: to give it back each time costs thousands of page faults a photo.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "VIPS_BLOCK_UNTRUSTED": "1",
    "VIPS_CONCURRENCY": "1",
    "VIPS_WARNING": "0",
}


class Decoder(Child):
    """A child that decodes pictures, and how many it has."""

    def __init__(self, memory_limit_bytes: int) -> None:
        super().__init__(
            "lingxi.imaging.child", ChildLimits(memory_limit_bytes, MAX_VARIANT_BYTES), _ENVIRONMENT
        )
        self.pictures = 0
