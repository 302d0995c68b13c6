"""Multipart uploads one step at a time, so that one which is given up can be aborted; obstore offers no abort and no list."""

import asyncio
import xml.etree.ElementTree as ElementTree
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from xml.sax.saxutils import escape

import httpx

from lingxi.storage.errors import StorageUnavailable
from lingxi.storage.s3_access import S3Access, error_code, refused, unreachable
from lingxi.storage.s3_signing import path_of, query_string, signed_headers

_TRIES: Final = 3
_PAUSE_SECONDS: Final = 0.2
_GONE: Final = 404
_SEND_BYTES: Final = 1 << 18
MARK: Final = ("lingxi", "1")  # metadata of everything that we put


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    """A multipart upload that was neither completed nor aborted."""

    key: str
    upload_id: str
    initiated_at: datetime


class MultipartClient:
    """The requests in one bucket that obstore does not make. Keys are full: this knows no prefix."""

    def __init__(self, bucket: str, access: S3Access) -> None:
        self._bucket = bucket
        self._access = access
        self._client = httpx.AsyncClient(
            base_url=access.endpoint.rstrip("/"),
            timeout=httpx.Timeout(access.timeout_seconds, connect=min(5.0, access.timeout_seconds)),
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=8),
            trust_env=False,
            verify=access.endpoint.startswith(
                "https:"
            ),  # certificates are loaded only where they are looked at
        )

    async def begin(self, key: str) -> str:
        """Answers the upload's id."""
        answer = await self._ask("POST", key, {"uploads": ""}, headers={f"x-amz-meta-{MARK[0]}": MARK[1]})
        upload_id = _text(_document(answer), "UploadId")
        if not upload_id:
            raise unreachable("its answer makes no sense")
        return upload_id

    async def put_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        """Send one part (number from 1); answers its ETag."""
        query = {"partNumber": str(number), "uploadId": upload_id}
        answer = await self._ask("PUT", key, query, data)
        return str(answer.headers.get("etag", ""))

    async def complete(self, key: str, upload_id: str, tags: list[str]) -> None:
        """Make the parts an object. S3 may answer 200 and tell of an error in the document."""
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(tag)}</ETag></Part>"
            for number, tag in enumerate(tags, start=1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        answer = await self._ask("POST", key, {"uploadId": upload_id}, body)
        if error_code(answer.text) is not None:
            raise refused(answer.text, answer.status_code)

    async def abort(self, key: str, upload_id: str) -> None:
        """Give the parts up; no error when there is no such upload."""
        await self._ask("DELETE", key, {"uploadId": upload_id}, missing_is_fine=True)

    async def remove(self, key: str) -> None:
        """Remove an object by a request of its own (obstore always sends batches); no error when there is none."""
        await self._ask("DELETE", key, {}, missing_is_fine=True)

    async def unfinished(self, prefix: str) -> AsyncIterator[UnfinishedUpload]:
        """All uploads of keys that begin with `prefix`, page by page."""
        query = {"uploads": "", "prefix": prefix}
        while True:
            answer = await self._ask("GET", "", query)
            page = _document(answer)
            for one in page.iterfind("{*}Upload"):
                key, upload_id, at = (_text(one, name) for name in ("Key", "UploadId", "Initiated"))
                if key.startswith(prefix):
                    yield UnfinishedUpload(key, upload_id, datetime.fromisoformat(at))
            markers = {
                "key-marker": _text(page, "NextKeyMarker"),
                "upload-id-marker": _text(page, "NextUploadIdMarker"),
            }
            if _text(page, "IsTruncated") != "true" or not markers["key-marker"]:
                return
            query = {"uploads": "", "prefix": prefix, **markers}

    async def close(self) -> None:
        """Close idle connections."""
        await self._client.aclose()

    async def _ask(
        self,
        method: str,
        key: str,
        query: Mapping[str, str],
        body: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        missing_is_fine: bool = False,
    ) -> httpx.Response:
        """One request, tried again when the connection breaks or the server is busy. Repeating any is harmless."""
        path = path_of(self._bucket, key)
        failure: StorageUnavailable = unreachable()
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_PAUSE_SECONDS * 2**attempt)
            signed = signed_headers(self._access, method, path, query, body, headers)
            signed["content-length"] = str(len(body))
            content = _Body(body)
            try:
                answer = await self._client.request(
                    method, f"{path}?{query_string(query)}", content=content, headers=signed
                )
            except httpx.TimeoutException:
                raise unreachable("it did not answer in time") from None
            except httpx.HTTPError as error:
                failure = unreachable(_plain(error))
                continue
            finally:
                content.forget()
            if answer.is_success or (missing_is_fine and _is_missing(answer)):
                return answer
            failure = refused(answer.text, answer.status_code)
            if answer.status_code < 500:
                break
        raise failure


def _is_missing(answer: httpx.Response) -> bool:
    """Of an object or upload; a bucket that is not there is a fault."""
    return answer.status_code == _GONE and error_code(answer.text) != "NoSuchBucket"


class _Body:
    """Bytes being sent. httpx's requests are cycles that wait for the garbage collector: they must not hold a part each."""

    def __init__(self, data: bytes) -> None:
        self._data: memoryview | None = memoryview(data)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._data or b""), _SEND_BYTES):
            if self._data is None:
                return
            yield bytes(self._data[start : start + _SEND_BYTES])

    def forget(self) -> None:
        self._data = None


def _document(answer: httpx.Response) -> ElementTree.Element:
    """The operator's own server is asked, and expat refuses entities that explode."""
    try:
        return ElementTree.fromstring(answer.content)  # noqa: S314
    except ElementTree.ParseError:
        raise unreachable("its answer makes no sense") from None


def _plain(error: httpx.HTTPError) -> str:
    return (
        "its address cannot be reached" if isinstance(error, httpx.ConnectError) else "the connection broke"
    )


def _text(element: ElementTree.Element, name: str) -> str:
    return element.findtext(f"{{*}}{name}") or ""
