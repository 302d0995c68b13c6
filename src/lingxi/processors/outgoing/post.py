"""Send a POST to a checked address: the name is asked for once, every answer is checked, and the connection goes to one of these.

httpx is given the address in the URL's place and so has no name to ask for: the host's own name goes into `Host`, and into TLS,
where the certificate is checked against it. No proxies, no redirects, no cookies, one connection a request.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Final

from lingxi.processors.outgoing.addresses import Address, AddressRule, as_address
from lingxi.processors.outgoing.urls import Target, UrlRefused, check_url

if TYPE_CHECKING:
    import httpx

MAX_REQUEST_BYTES: Final = 64 * 1024
KEPT_RESPONSE_BYTES: Final = 2 * 1024
_BODY_SECONDS: Final = 2.0  # for the beginning of an answer's body, once its status is there
_MAX_ADDRESSES: Final = 3  # that are tried, one after the other
_RESOLVING_THREADS: Final = 16  # of their own: names that hang must not hold what else runs in threads


class OutgoingError(Exception):
    """A request that brought no answer; the message is a plain sentence."""


class AddressRefused(OutgoingError):
    """It would go where nothing is sent to; no connection was made."""


class Unreachable(OutgoingError):
    """No address, no connection, no TLS, or no HTTP."""


class TooSlow(OutgoingError):
    """Its time was over."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one request, in seconds."""

    connect: float = 5.0
    silence: float = 10.0
    total: float = 15.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the status, `Retry-After` as it was written, and the first 2 kB of the body."""

    status: int
    retry_after: str | None
    body: bytes


class Poster:
    """Sends POST requests by the rule. `tls` is for tests; else the usual authorities (and SSL_CERT_FILE) are trusted."""

    def __init__(
        self, rule: AddressRule, limits: Limits | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.rule, self._limits, self._given_tls = rule, limits or Limits(), tls

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_RESOLVING_THREADS, "resolve")

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        import httpx

        return self._given_tls or httpx.create_ssl_context()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """One request. AddressRefused, Unreachable, TooSlow, OutgoingError for a body over 64 kB; any status is an answer."""
        if len(body) > MAX_REQUEST_BYTES:
            raise OutgoingError(f"The body is larger than {MAX_REQUEST_BYTES} bytes.")
        try:
            target = check_url(url, self.rule)
        except UrlRefused as refused:
            raise AddressRefused(f"The URL {refused}.") from None
        try:
            async with asyncio.timeout(self._limits.total):
                addresses = await self._addresses(target)
                return await self._first_that_connects(target, addresses, headers, body)
        except TimeoutError:
            raise TooSlow(f"It did not answer within {self._limits.total:g} s.") from None

    async def _addresses(self, target: Target) -> list[Address]:
        """All addresses of the host, each checked. One that is not permitted refuses them all."""
        found = [target.literal] if target.literal is not None else await self._resolve(target)
        for address in found:
            if not self.rule.permits(address):
                raise AddressRefused(
                    "The endpoint's name leads to a private, loopback or otherwise special address."
                )
            if target.scheme == "http" and not self.rule.is_allowed_inside(address):
                raise AddressRefused("http is only for networks that the operator allowed; use https.")
        return found

    async def _resolve(self, target: Target) -> list[Address]:
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(self._threads, _ask, target.host, target.port)
        except (OSError, UnicodeError):
            raise Unreachable("The endpoint's name has no address.") from None
        addresses = [as_address(answer) for answer in dict.fromkeys(answers)]
        if not addresses:
            raise Unreachable("The endpoint's name has no address.")
        if None in addresses:
            raise AddressRefused("The endpoint's name leads to an address of another kind.")
        return [address for address in addresses if address is not None]

    async def _first_that_connects(
        self, target: Target, addresses: Sequence[Address], headers: Mapping[str, str], body: bytes
    ) -> Answer:
        import httpx

        for number, address in enumerate(addresses[:_MAX_ADDRESSES], 1):
            last = number == min(len(addresses), _MAX_ADDRESSES)
            try:
                return await self._send(target, address, headers, body)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if last:
                    raise _explained(error) from error
            except httpx.HTTPError as error:
                raise _explained(error) from error
        raise AssertionError("a host has at least one address")

    async def _send(
        self, target: Target, address: Address, headers: Mapping[str, str], body: bytes
    ) -> Answer:
        import httpx

        where = f"[{address}]" if isinstance(address, IPv6Address) else str(address)
        limits = self._limits
        async with httpx.AsyncClient(
            verify=self._tls,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(limits.silence, connect=limits.connect),
        ) as client:
            request = httpx.Request(
                "POST",
                f"{target.scheme}://{where}:{target.port}{target.path}",
                headers={
                    **headers,
                    "Host": target.host_header,
                    "Accept-Encoding": "identity",
                    "Connection": "close",
                },
                content=body,
                extensions={
                    "timeout": client.timeout.as_dict(),
                    **({"sni_hostname": target.host} if target.literal is None else {}),
                },
            )
            response = await client.send(request, stream=True)
            try:
                return Answer(
                    response.status_code, response.headers.get("retry-after"), await _beginning(response)
                )
            finally:
                await response.aclose()


def _ask(host: str, port: int) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


async def _beginning(response: "httpx.Response") -> bytes:
    """The first bytes of the body; the rest is never read. An answer counts also when its body breaks off."""
    import httpx

    kept = bytearray()
    with contextlib.suppress(httpx.HTTPError, TimeoutError):
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in response.aiter_raw():
                kept += chunk[: KEPT_RESPONSE_BYTES - len(kept)]
                if len(kept) >= KEPT_RESPONSE_BYTES:
                    break
    return bytes(kept)


def _explained(error: "httpx.HTTPError") -> OutgoingError:
    import httpx

    match error:
        case httpx.ConnectTimeout():
            return TooSlow("The connection was not made in time.")
        case httpx.TimeoutException():
            return TooSlow("It was silent for too long.")
        case httpx.ConnectError() if "certificate" in str(error).lower():
            return Unreachable("Its certificate is not valid for its name, or is not trusted.")
        case httpx.ConnectError():
            return Unreachable("The connection was refused, or TLS failed.")
        case httpx.ProtocolError():
            return Unreachable("What it answered is no HTTP, or the connection was cut.")
        case _:
            return Unreachable("The connection was cut.")
