"""The files of the pages: templates with `$names`, and what the browser fetches from /static.

All static files share one version, which is a part of their address: a script that imports another one by its name gets the one
that it was written with, and browsers may keep both for ever.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from string import Template

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file for the browser."""

    body: bytes
    content_type: str


@cache
def template(name: str) -> Template:
    """The page `pages/<name>.html`."""
    return Template(fragment(f"{name}.html"))


@cache
def fragment(file_name: str) -> str:
    """A file of `pages/` as it is."""
    return (resources.files("lingxi.web") / "pages" / file_name).read_text("utf-8")


@cache
def static_files() -> dict[str, StaticFile]:
    """By name; nothing is ever looked up by a path from outside."""
    folder = resources.files("lingxi.web") / "static"
    found = {one.name: one for one in folder.iterdir() if one.name[one.name.rfind(".") :] in _TYPES}
    return {
        name: StaticFile(found[name].read_bytes(), _TYPES[name[name.rindex(".") :]]) for name in sorted(found)
    }


@cache
def static_version() -> str:
    """Changes with the content of any of them."""
    digest = hashlib.sha256()
    for name, file in static_files().items():
        digest.update(f"{name}\0{len(file.body)}\0".encode() + file.body)
    return digest.hexdigest()[:12]


def static_url(name: str) -> str:
    """The address of a static file."""
    assert name in static_files(), f"{name} is no static file"
    return f"/static/{static_version()}/{name}"
