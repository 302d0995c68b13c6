"""How a picture is refused, and how decoding fails."""

from typing import Final


class ImageError(Exception):
    """A picture that was not decoded. `code` is one of `domain.errors.ITEM_CODES`, which says whether a retry can help;
    `detail` is a plain sentence about this picture."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


FOR_PHOTOGRAPHERS: Final = {
    "empty_file": "This file is empty. Copy it from the camera again.",
    "unsupported_type": "This is no photo that can be shown here. Export it as JPEG and upload that.",
    "corrupt_image": "This photo is damaged and cannot be opened. Copy it from the camera again.",
    "truncated_image": "A part of this photo is missing, as after a copy that broke off. Copy it from the camera again.",
    "too_many_pixels": "This photo has more pixels than can be shown here. Export it smaller.",
    "too_large": "This file is larger than is accepted. Export it smaller or with stronger compression.",
    "decode_timeout": "This photo takes too long to open. Upload it again, or export it as JPEG first.",
    "decoder_crashed": "This photo cannot be opened here. Upload it again, or export it as JPEG first.",
    "storage_unavailable": "The storage could not be reached for too long. Upload this photo again.",
    "worker_lost": "Working on this photo was broken off again and again. Upload it again, or export it as JPEG first.",
    "deadline_exceeded": "This photo took too long. Upload it again.",
    "internal_error": "Something went wrong here, and it was not your photo's fault. Upload it again.",
    "object_not_found": "The uploaded file is gone from the storage. Upload this photo again.",
}
"""What to tell the person whose photo it is when it has failed for good, by code: what is the matter, and what to do (uploaded
again, a photo that failed is processed anew). `ImageError.detail` and `ITEM_CODES` are for engineers."""
