"""AWS Signature Version 4, for the requests that obstore cannot make (multipart uploads one step at a time) or cannot sign
(addresses that bind the size of what is sent).

Source: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html and `sigv4-query-string-auth.html`.
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from lingxi.storage.s3_access import S3Access

_ALGORITHM = "AWS4-HMAC-SHA256"
UNSIGNED = "UNSIGNED-PAYLOAD"


def path_of(bucket: str, key: str = "") -> str:
    """The path of a bucket or an object, path style, as it is sent and signed."""
    return "/" + quote(f"{bucket}/{key}" if key else bucket, safe="/-_.~")


def signed_headers(
    access: S3Access,
    method: str,
    path: str,
    query: Mapping[str, str],
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    *,
    at: datetime | None = None,
) -> dict[str, str]:
    """Headers that authorise one request with exactly this body; `headers` (lower case) are among them."""
    at = at or datetime.now(UTC)
    signed = {
        **(headers or {}),
        "host": urlsplit(access.endpoint).netloc,
        "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
        "x-amz-date": at.strftime("%Y%m%dT%H%M%SZ"),
    }
    if access.session_token:
        signed["x-amz-security-token"] = access.session_token
    names = ";".join(sorted(signed))
    signature = _signature(access, method, path, query, signed, signed["x-amz-content-sha256"], at)
    credential = f"{access.access_key_id}/{_scope(access, at)}"
    signed["authorization"] = (
        f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
    )
    return signed


def signed_url(
    access: S3Access,
    method: str,
    path: str,
    *,
    expires_seconds: int,
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
    at: datetime | None = None,
) -> str:
    """An address that does one thing for whoever has it, until it expires; `headers` have to be sent as they are here."""
    at = at or datetime.now(UTC)
    endpoint = access.public_endpoint or access.endpoint
    signed = {
        "host": urlsplit(endpoint).netloc,
        **{name.lower(): value for name, value in (headers or {}).items()},
    }
    parameters = {
        **(query or {}),
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{access.access_key_id}/{_scope(access, at)}",
        "X-Amz-Date": at.strftime("%Y%m%dT%H%M%SZ"),
        "X-Amz-Expires": str(expires_seconds),
        "X-Amz-SignedHeaders": ";".join(sorted(signed)),
    }
    if access.session_token:
        parameters["X-Amz-Security-Token"] = access.session_token
    signature = _signature(access, method, path, parameters, signed, UNSIGNED, at)
    return f"{endpoint.rstrip('/')}{path}?{query_string(parameters)}&X-Amz-Signature={signature}"


def query_string(query: Mapping[str, str]) -> str:
    """The canonical query, which is also the one that is sent."""
    return "&".join(
        f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in sorted(query.items())
    )


def _scope(access: S3Access, at: datetime) -> str:
    return f"{at:%Y%m%d}/{access.region}/s3/aws4_request"


def _signature(
    access: S3Access,
    method: str,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    payload: str,
    at: datetime,
) -> str:
    lines = "".join(f"{name}:{headers[name].strip()}\n" for name in sorted(headers))
    canonical = "\n".join((method, path, query_string(query), lines, ";".join(sorted(headers)), payload))
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join((_ALGORITHM, at.strftime("%Y%m%dT%H%M%SZ"), _scope(access, at), digest))
    key = b"AWS4" + access.secret_access_key.encode()
    for part in (f"{at:%Y%m%d}", access.region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()
