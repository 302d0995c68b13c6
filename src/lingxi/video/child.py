"""The process in which videos are decoded and encoded: `python -m lingxi.video.child …`, as `sandbox.guest` says.

The work is JSON, `{"what": "transcode", "options": {…}}`, with the descriptor of an open file and those of the files to
write. While it goes on, it says `{"progress": [done, total]}`, in seconds of the video. One child does one piece of work.
"""

import json
import time
from typing import Any, Final

from lingxi.sandbox.guest import Parent, serve
from lingxi.video.errors import VideoError

MAX_DESCRIPTORS: Final = 3
_TELL_SECONDS: Final = 0.1


def main() -> None:
    """Serve the socket until its other end is closed."""
    serve(_prepare, _answer, max_descriptors=MAX_DESCRIPTORS)


def _prepare() -> None:
    import av.logging

    av.logging.set_level(None)


def _answer(parent: Parent, message: bytes, descriptors: list[int]) -> dict[str, Any]:
    work = json.loads(message)
    try:
        return {"done": _do(parent, work["what"], work["options"], descriptors)}
    except VideoError as error:
        return {"code": error.code, "detail": error.detail}


def _do(parent: Parent, what: str, options: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    from lingxi.video.source import open_source

    with open_source(descriptors[0]) as source:
        match what:
            case "poster":
                from lingxi.video.poster import PosterOptions, make_poster

                return make_poster(source, descriptors[1], descriptors[2], PosterOptions(**options))
            case "transcode":
                from lingxi.video.transcode import TranscodeOptions, transcode

                return transcode(source, descriptors[1], TranscodeOptions(**options), _Teller(parent))
            case _:
                from lingxi.video.probe import probe

                return probe(source)


class _Teller:
    """Tells the parent now and then."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._due = 0.0

    def __call__(self, done: float, total: float | None) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + _TELL_SECONDS
            self._parent.tell({"progress": [done, total]})


if __name__ == "__main__":
    main()
