"""One archive of the files that stdin lists, in a process of its own: `{"seconds", "peakMegabytes", "bytes"}` on stdout."""

import asyncio
import hashlib
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from lingxi.processors.archive_receipt import SigningKey
from lingxi.processors.archive_stream import ArchiveStream
from lingxi.services.archive_files import ArchiveFile
from lingxi.storage import open_storage


def peak_megabytes(process: int | str) -> float:
    """The most that a process has had in memory since its program began (`ru_maxrss` would count who started it)."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0  # it has ended


async def _hash_and_drop(stream: ArchiveStream) -> int:
    """What a put does, without a disk."""
    digest, size_bytes = hashlib.sha256(), 0
    async for chunk in stream.chunks():
        await asyncio.to_thread(digest.update, chunk)
        size_bytes += len(chunk)
    return size_bytes


async def make(folder: Path, files: list[ArchiveFile], *, keep: bool) -> dict[str, Any]:
    """From the storage in `folder` to the storage in `folder`, as a worker does it; without `keep` to nowhere."""
    storage = open_storage(folder.as_uri())
    stream = ArchiveStream(
        storage,
        files,
        SigningKey(b"bench"),
        head={"archive": "bench.zip", "item": "bench", "issuedAt": "2026-05-01T12:00:00Z"},
        issued_at=1_777_636_800,
        skip_missing=False,
        say=lambda done, count: None,
    )
    before = resource.getrusage(resource.RUSAGE_SELF)
    begun = time.monotonic()
    if keep:
        stored = await storage.put(stream.chunks(), max_bytes=1 << 50)
        size_bytes, key = stored.size_bytes, stored.key
    else:
        size_bytes, key = await _hash_and_drop(stream), ""
    seconds = time.monotonic() - begun
    used = resource.getrusage(resource.RUSAGE_SELF)
    await storage.close()
    return {
        "seconds": seconds,
        "cpuSeconds": used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime,
        "peakMegabytes": peak_megabytes("self"),
        "bytes": size_bytes,
        "key": key,
    }


def main() -> None:
    given = json.load(sys.stdin)
    files = [
        ArchiveFile(name, name, f"media:{name}", size_bytes, bytes.fromhex(sha256), 1_777_636_800)
        for name, size_bytes, sha256 in given["files"]
    ]
    print(json.dumps(asyncio.run(make(Path(given["folder"]), files, keep=given["keep"]))))


if __name__ == "__main__":
    main()
