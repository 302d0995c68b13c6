"""The files of the pages: templates with `$names`, and what the browser fetches from /static."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from string import Template

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_STATIC_NAMES = ("app.css", "app.js", "favicon.svg")


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file for the browser; `version` changes with its content."""

    body: bytes
    content_type: str
    version: str


@cache
def template(name: str) -> Template:
    """The page `pages/<name>.html`."""
    return Template((resources.files("lingxi.web") / "pages" / f"{name}.html").read_text("utf-8"))


@cache
def static_file(name: str) -> StaticFile | None:
    """A file of `static/`, or None for any other name: nothing is looked up by a path from outside."""
    if name not in _STATIC_NAMES:
        return None
    body = (resources.files("lingxi.web") / "static" / name).read_bytes()
    return StaticFile(body, _TYPES[name[name.rindex(".") :]], hashlib.sha256(body).hexdigest()[:12])


def static_url(name: str) -> str:
    """The address of a static file, which changes with its content so that browsers may keep it for ever."""
    file = static_file(name)
    assert file is not None, f"{name} is no static file"
    return f"/static/{name}?v={file.version}"
