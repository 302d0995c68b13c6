"""BullMQ's own Lua scripts, read from the installed package. We send them ourselves; we never change them."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from lingxi.broker.resp import bulk, command, head


@dataclass(frozen=True, slots=True)
class Script:
    """One Lua script: its source, SHA-1 and how many keys it takes (BullMQ writes that into the file's name)."""

    name: str
    source: bytes
    sha: bytes
    key_count: int

    def opening(self, keys: Sequence[bytes], argument_count: int, absent_keys: int = 0) -> bytes:
        """EVALSHA and `keys`; the `absent_keys` last keys and `argument_count` arguments must follow as bulks."""
        if len(keys) + absent_keys != self.key_count:
            raise ValueError(f"{self.name} takes {self.key_count} keys, not {len(keys) + absent_keys}")
        count = b"%d" % self.key_count
        return head(3 + self.key_count + argument_count) + bulk(b"EVALSHA", self.sha, count, *keys)


@functools.cache
def load_script(name: str) -> Script:
    (path,) = _commands_folder().glob(f"{name}-*.lua")
    source = path.read_bytes()
    return Script(
        name,
        source,
        hashlib.sha1(source, usedforsecurity=False).hexdigest().encode(),
        int(path.stem.rpartition("-")[2]),
    )


def loading(names: Sequence[str]) -> tuple[bytes, int]:
    """SCRIPT LOAD of each, in one write; and how many replies follow."""
    return b"".join(command(b"SCRIPT", b"LOAD", load_script(name).source) for name in names), len(names)


@functools.cache
def _commands_folder() -> pathlib.Path:
    # find_spec, not import: the package's own modules are slow to load, and none of them is used.
    spec = importlib.util.find_spec("bullmq")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("the package bullmq is not installed")
    return pathlib.Path(spec.submodule_search_locations[0]) / "commands"
