"""The primary picture of a HEIC file, by the libheif in pi_heif's wheel.

pi_heif leaves out what libheif warns of: a tile that cannot be decoded stays blank, green, and is told in a warning alone.
It also hands out no gray of more than eight bits.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pi_heif

# Numbers of libheif's C interface, which keeps them.
_MONOCHROME, _PLANAR, _CHANNEL_Y = 2, 0, 0
_RGB, _CHANNEL_INTERLEAVED = 1, 10
_INTERLEAVED: Final = {3: 10, 4: 11}  # by bands
# About how the colours were declared: unknown numbers, or two places that disagree. The pixels are all there.
_HARMLESS: Final = {133, 134, 135, 152}
_MAX_WARNINGS: Final = 32


class LibheifError(Exception):
    """libheif's own words."""


class _Error(ctypes.Structure):
    _fields_ = (("code", ctypes.c_int), ("subcode", ctypes.c_int), ("message", ctypes.c_char_p))


class _Options(ctypes.Structure):
    """The beginning of `heif_decoding_options`, whose memory is libheif's."""

    _fields_ = (
        ("version", ctypes.c_uint8),
        ("ignore_transformations", ctypes.c_uint8),
        ("callbacks", ctypes.c_void_p * 4),
        ("convert_hdr_to_8bit", ctypes.c_uint8),
    )


def decode_primary(content: bytes, bands: int) -> tuple[bytes, int, int]:
    """Pixels of `bands` bytes each (1, 3 or 4), row by row, and width and height, turned and cropped as the file says.

    LibheifError when it, or a tile of it, cannot be decoded.
    """
    lib = _library()
    with _context(lib, content) as handle, _decoded(lib, handle, bands) as image:
        _check_warnings(lib, image)
        width, height = lib.heif_image_get_primary_width(image), lib.heif_image_get_primary_height(image)
        stride = ctypes.c_size_t()
        channel = _CHANNEL_Y if bands == 1 else _CHANNEL_INTERLEAVED
        plane = lib.heif_image_get_plane_readonly2(image, channel, ctypes.byref(stride))
        if not plane:
            raise LibheifError("no pixels")
        row_bytes = width * bands
        if stride.value == row_bytes:
            return ctypes.string_at(plane, row_bytes * height), width, height
        rows = (ctypes.string_at(plane + row * stride.value, row_bytes) for row in range(height))
        return b"".join(rows), width, height


@contextmanager
def _context(lib: Any, content: bytes) -> Iterator[ctypes.c_void_p]:
    context, handle = lib.heif_context_alloc(), ctypes.c_void_p()
    try:
        lib.heif_context_set_max_decoding_threads(context, 0)  # a photo a core, and no thread beside it
        _check(lib.heif_context_read_from_memory_without_copy(context, content, len(content), None))
        _check(lib.heif_context_get_primary_image_handle(context, ctypes.byref(handle)))
        yield handle
    finally:
        if handle:
            lib.heif_image_handle_release(handle)
        lib.heif_context_free(context)


@contextmanager
def _decoded(lib: Any, handle: ctypes.c_void_p, bands: int) -> Iterator[ctypes.c_void_p]:
    image = ctypes.c_void_p()
    options = lib.heif_decoding_options_alloc()
    options.contents.convert_hdr_to_8bit = 1
    space, chroma = (_MONOCHROME, _PLANAR) if bands == 1 else (_RGB, _INTERLEAVED[bands])
    try:
        _check(lib.heif_decode_image(handle, ctypes.byref(image), space, chroma, options))
        yield image
    finally:
        lib.heif_decoding_options_free(options)
        if image:
            lib.heif_image_release(image)


def _check(error: _Error) -> None:
    if error.code:
        raise LibheifError((error.message or b"").decode("utf-8", "replace"))


def _check_warnings(lib: Any, image: ctypes.c_void_p) -> None:
    warnings = (_Error * _MAX_WARNINGS)()
    for index in range(lib.heif_image_get_decoding_warnings(image, 0, warnings, _MAX_WARNINGS)):
        if warnings[index].subcode not in _HARMLESS:
            _check(warnings[index])


_loaded: list[ctypes.CDLL] = []


def _library() -> ctypes.CDLL:
    if not _loaded:
        (path,) = Path(pi_heif.__file__).parents[1].glob("pi_heif.libs/libheif-*")
        _loaded.append(_declared(ctypes.CDLL(str(path))))  # the one that pi_heif has loaded
    return _loaded[0]


def _declared(lib: ctypes.CDLL) -> ctypes.CDLL:
    pointer, number = ctypes.c_void_p, ctypes.c_int
    options = ctypes.POINTER(_Options)
    for name, result, arguments in (
        ("heif_context_alloc", pointer, ()),
        ("heif_context_free", None, (pointer,)),
        ("heif_context_set_max_decoding_threads", None, (pointer, number)),
        (
            "heif_context_read_from_memory_without_copy",
            _Error,
            (pointer, ctypes.c_char_p, ctypes.c_size_t, pointer),
        ),
        ("heif_context_get_primary_image_handle", _Error, (pointer, pointer)),
        ("heif_image_handle_release", None, (pointer,)),
        ("heif_decoding_options_alloc", options, ()),
        ("heif_decoding_options_free", None, (options,)),
        ("heif_decode_image", _Error, (pointer, pointer, number, number, options)),
        ("heif_image_release", None, (pointer,)),
        ("heif_image_get_decoding_warnings", number, (pointer, number, pointer, number)),
        ("heif_image_get_primary_width", number, (pointer,)),
        ("heif_image_get_primary_height", number, (pointer,)),
        ("heif_image_get_plane_readonly2", pointer, (pointer, number, pointer)),
    ):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib
