"""The process in which pictures are decoded: `python -m lingxi.imaging.child …`, as `sandbox.guest` says.

The work is `inspect`, `describe`, `look` or `variants`, with the descriptor of an open file (and those of the variants to
write), and behind it the number of bytes that pixels may take. For more it says, once it has read the header, how many they are,
`{"neededBytes": n}`, and waits for `go`.
"""

from dataclasses import asdict
from typing import Any

from lingxi.imaging.errors import ImageError
from lingxi.sandbox.guest import Parent, serve

INSPECT, VARIANTS, DESCRIBE, LOOK = b"inspect", b"variants", b"describe", b"look"
VARIANT_KINDS = ("browse", "thumb")  # in the order of their descriptors
MAX_VARIANT_BYTES = 32 << 20


def main() -> None:
    """Serve the socket until its other end is closed."""
    serve(_prepare, _answer, max_descriptors=1 + len(VARIANT_KINDS))


def _prepare() -> None:
    from lingxi.imaging import engine

    engine.prepare()


def _answer(parent: Parent, what: bytes, descriptors: list[int]) -> dict[str, Any]:
    from lingxi.imaging import engine  # the parent of the decoders reads this module and does without libvips

    what, _, granted_bytes = what.partition(b" ")

    def admit(needed_bytes: int) -> None:
        if needed_bytes > int(granted_bytes or b"0"):
            parent.ask({"neededBytes": needed_bytes})

    source, *outputs = descriptors
    try:
        if what == DESCRIBE:
            from lingxi.imaging.describe import describe

            return {"described": describe(source)}
        if what == LOOK:
            from lingxi.imaging.fingerprint import fingerprint  # numpy takes its time to import

            return {"looks": fingerprint(source, admit)}
        if what == INSPECT:
            return {"facts": asdict(engine.inspect(source, admit))}
        return {"made": engine.make_variants(source, dict(zip(VARIANT_KINDS, outputs, strict=True)), admit)}
    except ImageError as error:
        return {"code": error.code, "detail": error.detail}


if __name__ == "__main__":
    main()
