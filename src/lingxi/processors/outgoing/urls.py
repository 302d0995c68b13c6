"""Read a URL that a user gave, more strictly than any client would: what two readers could take for two hosts is refused."""

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

from lingxi.processors.outgoing.addresses import Address, AddressRule

MAX_URL_CHARACTERS: Final = 2_000
_URL = re.compile(r"(https?)://([^/?#]*)([/?][^#]*)?", re.IGNORECASE)
_CHARACTERS = re.compile(
    r"[A-Za-z0-9\-._~:/?\[\]@!$&'()*+,;=%]+"
)  # RFC 3986 without '#': no white space, no backslash
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_NAME = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
)
_NUMBER = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)")
_WELL_KNOWN_PORTS: Final = 1_024
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}


class UrlRefused(ValueError):
    """Nothing is sent to this URL; the message ends the sentence "it …"."""


@dataclass(frozen=True, slots=True)
class Target:
    """A URL in parts. `host` is a name in lower case, or the text of `literal`."""

    scheme: str
    host: str
    port: int
    path: str
    literal: Address | None

    @property
    def host_header(self) -> str:
        """Host, and the port unless it is the scheme's own."""
        host = f"[{self.host}]" if isinstance(self.literal, IPv6Address) else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def parse_url(text: str) -> Target:
    """The parts of an http(s) URL; UrlRefused for what is none, or could mean two things."""
    if len(text) > MAX_URL_CHARACTERS:
        raise UrlRefused(f"has more than {MAX_URL_CHARACTERS} characters")
    if not text.isascii():
        raise UrlRefused("has characters outside of ASCII; write a host's name in its xn-- form")
    if "#" in text:
        raise UrlRefused("must not have a fragment (#)")
    if not _CHARACTERS.fullmatch(text):
        raise UrlRefused("has a character that a URL cannot have")
    parts = _URL.fullmatch(text)
    if parts is None:
        raise UrlRefused("must begin with https://")
    scheme, authority, path = parts[1].lower(), parts[2], parts[3] or "/"
    if "@" in authority:
        raise UrlRefused("must not have a user name or a password")
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise UrlRefused("has no host that can be read")
    host = found[1].lower()
    literal = _literal(host)
    if literal is None and not _NAME.fullmatch(host):
        raise UrlRefused("has a host that is no name; a dot at its end is not taken")
    port = int(found[2]) if found[2] else _DEFAULT_PORTS[scheme]
    if port > 65_535 or (port < _WELL_KNOWN_PORTS and port not in _DEFAULT_PORTS.values()):
        raise UrlRefused("must use port 443, 80, or one from 1024 to 65535")
    return Target(
        scheme,
        host if literal is None else str(literal),
        port,
        path if path[0] == "/" else f"/{path}",
        literal,
    )


def _literal(host: str) -> Address | None:
    """The address that the host is; None for a name. A number in any but the plain notation is refused."""
    try:
        if host[0] == "[":
            return IPv6Address(host[1:-1])
        if _NUMBER.fullmatch(
            host.rstrip(".").rpartition(".")[2]
        ):  # 2130706433, 0x7f.1, 127.1: browsers take them for addresses
            return IPv4Address(host)
    except AddressValueError:
        raise UrlRefused(
            "has an address that is not written plainly, like 192.0.2.1 or [2001:db8::1]"
        ) from None
    return None


def check_url(text: str, rule: AddressRule) -> Target:
    """`parse_url`, and what can be said without asking for the name's addresses. UrlRefused."""
    target = parse_url(text)
    if target.literal is not None and not rule.permits(target.literal):
        raise UrlRefused("leads to a private, loopback or otherwise special address")
    if target.scheme == "http" and not rule.allowed:
        raise UrlRefused("must begin with https://")
    if target.scheme == "http" and target.literal is not None and not rule.is_allowed_inside(target.literal):
        raise UrlRefused("must begin with https://: http is for networks that the operator allowed")
    return target
