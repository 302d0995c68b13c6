"""Content-Disposition as clients write it, and as nobody should."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingxi.api.header_parameters import header_parameters


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (b'form-data; name="files"; filename="a.jpg"', b"a.jpg"),
        (b'form-data;filename="a;b=c.jpg"', b"a;b=c.jpg"),
        (b'form-data; filename="say \\"x\\".jpg"', b'say "x".jpg'),
        (b"form-data; filename=plain.jpg ; name=f", b"plain.jpg"),
        ('form-data; filename="日本.jpg"'.encode(), "日本.jpg".encode()),
        (b"form-data; filename=\"e.jpg\"; filename*=UTF-8''%e2%82%ac.jpg", "€.jpg".encode()),
        (b"form-data; filename*=iso-8859-1'en'%A3.jpg", "£.jpg".encode()),
        (b"form-data; filename*=utf-8'no-second-quote%20x", b"utf-8'no-second-quote x"),
        (b"form-data; filename*0*=utf-8''%e4%bd%a0; filename*1=\"b.jpg\"", "你b.jpg".encode()),
        (b'form-data; filename*1="b"; filename*0="a"; filename*3="d"', b"ab"),
        (b'form-data; filename="\xff\xfe.jpg"', b"\xff\xfe.jpg"),
        (b'form-data; filename=""', b""),
        (b'form-data; FileName="a.jpg"', b"a.jpg"),
        (b'form-data; filename="first.jpg"; filename="second.jpg"', b"first.jpg"),
        (b'form-data; name="x"', None),
        (b"", None),
    ],
)
def test_the_file_name(header: bytes, name: bytes | None) -> None:
    assert header_parameters(header)[1].get("filename") == name


@given(st.binary(max_size=200))
def test_nothing_fails(noise: bytes) -> None:
    header_parameters(b'form-data; filename="' + noise)
    header_parameters(noise)


def test_a_hostile_header_takes_no_time() -> None:
    for hostile in (
        b';a="' * 8000,
        b'; a="\\' * 5000,
        b";" * 32_000,
        b"; a*0*='" * 4000,
        b'; a="' + b"\\" * 32_000,
    ):
        started = time.process_time()
        header_parameters(b"form-data" + hostile)
        assert time.process_time() - started < 1
