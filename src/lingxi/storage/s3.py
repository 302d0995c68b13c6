"""Storage in a bucket of an S3 server.

    <prefix>/objects/<key>     random keys
    <prefix>/<key>             composed keys

Small objects are one PUT, larger ones a multipart upload that is aborted when it is given up. Everything that we put carries the
metadata `lingxi`, so that nothing else in the bucket is ever taken for ours. Nothing here waits without a limit.
"""

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Sequence
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import obstore
from obstore.exceptions import BaseError, NotFoundError, NotModifiedError, PreconditionError
from obstore.store import S3Store

from lingxi.storage.checking import check_by_trying
from lingxi.storage.errors import ObjectMissing, StorageUnavailable
from lingxi.storage.port import (
    CHUNK_BYTES,
    MEDIA,
    Listed,
    SignedRequest,
    Stat,
    StoredBytes,
    check_key,
    check_prefix,
    check_readable_key,
    is_random_key,
    new_key,
)
from lingxi.storage.s3_access import S3Access, error_code, refused, unreachable
from lingxi.storage.s3_multipart import MARK, MultipartClient
from lingxi.storage.s3_reader import S3Reader, read_several
from lingxi.storage.s3_signing import path_of, signed_url
from lingxi.storage.s3_upload import S3Upload, put_parts

_RANDOM_FOLDER: Final = "objects/"
_LIST_CHUNK: Final = 500
_DELETE_CHUNK: Final = 500
_DELETE_TRIES: Final = 3

ResultT = TypeVar("ResultT")


class S3Storage:
    """A `Storage` in `bucket`, below `prefix` (`…/`, or empty for all of the bucket)."""

    def __init__(self, bucket: str, prefix: str, access: S3Access) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._access = access
        self._store = _client(bucket, access)
        self._multipart = MultipartClient(bucket, access)

    async def put(
        self, chunks: AsyncIterable[bytes], *, max_bytes: int, key: str | None = None
    ) -> StoredBytes:
        """See `Storage.put`."""
        key = check_key(key or new_key())
        upload = S3Upload(self._full(key), self._put_whole, self._multipart, self._remove)
        size_bytes, digest = await put_parts(
            upload, chunks, max_bytes=max_bytes, removable=is_random_key(key)
        )
        return StoredBytes(key, size_bytes, digest)

    async def put_file(self, path: Path, *, max_bytes: int, key: str | None = None) -> StoredBytes:
        """See `Storage.put_file`."""
        return await self.put(_chunks_of(path), max_bytes=max_bytes, key=key)

    async def open(self, key: str, *, start: int = 0, length: int | None = None) -> S3Reader:
        """See `Storage.open`."""
        full = self._full(check_readable_key(key))
        options: dict[str, Any] = {}
        if start or (
            length is not None and length < 1
        ):  # it may be a part without bytes, which S3 cannot give
            size_bytes = (await self._head(full)).size_bytes
            end = size_bytes if length is None else min(size_bytes, start + length)
            if start >= end:
                return self._reader(full, size_bytes, None)
            options = {"range": (start, end)}
        elif length is not None:
            options = {"range": (0, length)}
        try:
            result = await self._get(full, options)
        except _RangeOutside:
            return self._reader(full, (await self._head(full)).size_bytes, None)
        return self._reader(full, result.meta["size"], result)

    def _reader(self, full: str, size_bytes: int, result: Any) -> S3Reader:
        async def reopen(start: int, end: int, etag: str | None) -> Any:
            return await self._get(full, {"range": (start, end), **({"if_match": etag} if etag else {})})

        return S3Reader(size_bytes, result, reopen, self._access.timeout_seconds)

    async def _get(self, full: str, options: Any) -> Any:
        return await self._bounded(obstore.get_async(self._store, full, options=options))

    async def read_small(self, keys: Sequence[str], *, max_bytes: int) -> list[bytes | None]:
        """See `Storage.read_small`: a few requests at a time."""
        return await read_several(self.open, keys, max_bytes)

    async def stat(self, key: str) -> Stat:
        """See `Storage.stat`."""
        return await self._head(self._full(check_readable_key(key)))

    async def delete(self, key: str) -> None:
        """See `Storage.delete`."""
        await self._remove(self._full(check_key(key)))

    async def delete_prefix(self, prefix: str) -> int:
        """See `Storage.delete_prefix`."""
        removed = 0
        keys: list[str] = []
        async for one in self._list(self._prefix + check_prefix(prefix)):
            keys.append(one["path"])
            if len(keys) == _DELETE_CHUNK:
                removed += await self._remove_many(keys)
                keys = []
        return removed + await self._remove_many(keys)

    async def list_keys(self, prefix: str = "", *, older_than_seconds: float = 0.0) -> AsyncIterator[Listed]:
        """See `Storage.list_keys`."""
        folder = self._prefix + (check_prefix(prefix) if prefix else _RANDOM_FOLDER)
        newest = time.time() - older_than_seconds
        async for one in self._list(folder):
            key = one["path"].removeprefix(folder if not prefix else self._prefix)
            modified_at = one["last_modified"].astimezone(UTC).timestamp()
            if modified_at <= newest and _is_ours(key, random=not prefix):
                yield Listed(key, one["size"], modified_at)

    async def move(self, key: str, new_key: str) -> None:
        """See `Storage.move`."""
        source, target = self._full(check_key(key)), self._full(check_key(new_key))
        await self._bounded(obstore.copy_async(self._store, source, target))
        await self._remove(source)

    async def signed_put(self, key: str, *, size_bytes: int, lifetime_seconds: int) -> SignedRequest | None:
        """See `Storage.signed_put`. The size is signed, so the server takes no other one."""
        headers = {"Content-Length": str(size_bytes), f"x-amz-meta-{MARK[0]}": MARK[1]}
        path = path_of(self._bucket, self._full(check_key(key)))
        url = signed_url(self._access, "PUT", path, expires_seconds=lifetime_seconds, headers=headers)
        return SignedRequest("PUT", url, headers)

    async def signed_get(
        self, key: str, *, lifetime_seconds: int, file_name: str, content_type: str
    ) -> SignedRequest | None:
        """See `Storage.signed_get`."""
        path = path_of(self._bucket, self._full(check_readable_key(key)))
        query = {
            "response-content-disposition": f"attachment; filename*=UTF-8''{quote(file_name, safe='')}",
            "response-content-type": content_type,
            "response-cache-control": "private, no-cache",
        }
        url = signed_url(self._access, "GET", path, expires_seconds=lifetime_seconds, query=query)
        return SignedRequest("GET", url, {})

    async def sweep_unfinished(self, *, older_than_seconds: float) -> int:
        """See `Storage.sweep_unfinished`. Only uploads below our prefix, to keys that may be ours."""
        swept = 0
        async for upload in self._multipart.unfinished(self._prefix):
            key = upload.key.removeprefix(self._prefix)
            random = key.startswith(_RANDOM_FOLDER)
            old = time.time() - upload.initiated_at.timestamp() >= older_than_seconds
            if old and _is_ours(key.removeprefix(_RANDOM_FOLDER) if random else key, random=random):
                await self._multipart.abort(upload.key, upload.upload_id)
                swept += 1
        return swept

    async def check(self) -> None:
        """See `Storage.check`."""
        await check_by_trying(self)

    async def close(self) -> None:
        """Close idle connections."""
        await self._multipart.close()

    def _full(self, key: str) -> str:
        """The key in the bucket. Registered media are named from the bucket's root."""
        if key.startswith(MEDIA):
            return key.removeprefix(MEDIA)
        return self._prefix + (_RANDOM_FOLDER + key if is_random_key(key) else key)

    async def _put_whole(self, full: str, data: bytes) -> None:
        await self._bounded(
            obstore.put_async(self._store, full, data, use_multipart=False, attributes={MARK[0]: MARK[1]})
        )

    async def _remove(self, full: str) -> None:
        await self._multipart.remove(full)

    async def _remove_many(self, fulls: list[str]) -> int:
        """Servers may refuse some keys of a batch for the moment; removing the others again is harmless."""
        for attempt in range(_DELETE_TRIES):
            try:
                if fulls:
                    await self._bounded(obstore.delete_async(self._store, fulls))
                break
            except StorageUnavailable:
                if attempt + 1 == _DELETE_TRIES:
                    raise
                await asyncio.sleep(0.2)
        return len(fulls)

    async def _head(self, full: str) -> Stat:
        try:
            result = await self._bounded(obstore.get_async(self._store, full, options={"head": True}))
        except ObjectMissing:  # or the bucket is: a HEAD has no body to tell
            result = await self._bounded(obstore.get_async(self._store, full))
        meta = result.meta
        attributes: Any = result.attributes
        return Stat(meta["size"], meta["last_modified"].timestamp(), attributes.get(MARK[0]) == MARK[1])

    async def _list(self, folder: str) -> AsyncIterator[Any]:
        pages = obstore.list(self._store, prefix=folder, chunk_size=_LIST_CHUNK).__aiter__()
        while True:
            try:
                page = await self._bounded(pages.__anext__())
            except StopAsyncIteration:
                return
            for one in page:
                yield one

    async def _bounded(self, call: Awaitable[ResultT]) -> ResultT:
        """Its answer within the time limit; StorageUnavailable or ObjectMissing in a sentence."""
        try:
            async with asyncio.timeout(self._access.timeout_seconds):
                return await call
        except TimeoutError:
            raise unreachable("it did not answer in time") from None
        except (BaseError, OSError, ValueError) as error:
            raise _translated(error) from None


class _RangeOutside(StorageUnavailable):
    """A range that begins after the end."""


async def _chunks_of(path: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(open, path, "rb") as file:
        while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield chunk


def _translated(error: Exception) -> Exception:
    text = str(error)
    if isinstance(error, NotFoundError | FileNotFoundError) and error_code(text) != "NoSuchBucket":
        return ObjectMissing("no bytes are stored under this key")
    if isinstance(error, PreconditionError | NotModifiedError):
        return ObjectMissing("the object under this key is another one")
    if error_code(text) == "InvalidRange" or " 416" in text:
        return _RangeOutside("the range begins after the end")
    return refused(text)


def _is_ours(key: str, *, random: bool) -> bool:
    try:
        check_key(key)
    except ValueError:
        return False
    return is_random_key(key) == random


def _client(bucket: str, access: S3Access) -> S3Store:
    seconds = timedelta(seconds=access.timeout_seconds)
    credentials: dict[str, Any] = {"session_token": access.session_token} if access.session_token else {}
    return S3Store(
        bucket,
        endpoint=access.endpoint,
        region=access.region,
        access_key_id=access.access_key_id,
        secret_access_key=access.secret_access_key,
        virtual_hosted_style_request=False,
        client_options={
            "allow_http": True,
            "connect_timeout": timedelta(seconds=min(5.0, access.timeout_seconds)),
            "read_timeout": seconds,
            "timeout": timedelta(days=1),  # of a whole download: each of its silences is bounded instead
        },
        retry_config={
            "max_retries": 2,
            "retry_timeout": seconds,
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=1),
                "base": 2,
            },
        },
        **credentials,
    )
