"""How a picture is refused, and how decoding fails."""


class ImageError(Exception):
    """A picture that was not decoded. `code` is one of `domain.errors.ITEM_CODES`, which says whether a retry can help;
    `detail` is a plain sentence about this picture."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
