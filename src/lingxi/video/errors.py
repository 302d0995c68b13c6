"""How a video is refused, and how its decoding fails."""


class VideoError(Exception):
    """A video that gave no result. `code` is one of `domain.errors.ITEM_CODES`, which says whether a retry can help;
    `detail` is a plain sentence about this video."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
