"""Where webhooks never go: addresses and notations, names that lead there, redirects, names whose answer changes."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lingxi.processors.outgoing.addresses import AddressRule, is_public
from lingxi.processors.outgoing.post import (
    AddressRefused,
    Answer,
    Limits,
    OutgoingError,
    Poster,
    TooSlow,
    Unreachable,
)
from lingxi.processors.outgoing.urls import UrlRefused, check_url, parse_url
from tests.integration.webhooks.names import DnsServer, Witness, resolved_by
from tests.integration.webhooks.receiver import Receiver, Reply

# Private, loopback, link-local, multicast, CGNAT, metadata, and what stands for another address.
ADDRESSES = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.0.0.53",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:8.8.8.8",
    "::127.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::a9fe:a9fe",
    "100::1",
    "2001::1",
    "2001:0:a00:1::1",
    "2001:10::1",
    "2001:2::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "2002:a9fe:a9fe::1",
    "3fff::1",
    "3ffe::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd12:3456:789a::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "2a00:1450::5efe:7f00:1",
    "2a00:1450::200:5efe:10.0.0.1",
]

# Other ways of writing them, and URLs that two readers read differently.
NOTATIONS = [
    "https://2130706433/",
    "https://0x7f000001/",
    "https://017700000001/",
    "https://0177.0.0.1/",
    "https://0x7f.0.0.1/",
    "https://0x7f.1/",
    "https://127.1/",
    "https://127.0.1/",
    "https://127.0.0.1./",
    "https://127.0.0.01/",
    "https://00000127.0.0.1/",
    "https://3232235777/",
    "https://0xA9FEA9FE/",
    "https://169.254.43518/",
    "https://1.2.3.4.5/",
    "https://256.0.0.1/",
    "https://4294967297/",
    "https://foo.0x1/",
    "https://8.8.8.0x8/",
    "https://[::ffff:7f00:1]/",
    "https://[0:0:0:0:0:ffff:127.0.0.1]/",
    "https://[::]:443/",
    "https://[fe80::1%25eth0]/",
    "https://[fe80::1%eth0]/",
    "https://[v1.x]/",
    "https://[127.0.0.1]/",
    "https://１２７.０.０.１/",
    "https://①②⑦.⓪.⓪.①/",
    "https://127。0。0。1/",
    "https://ⓛocalhost/",
    "https://bücher.example/",
    "https://localhost./",
    "https://example.com./",
    "https://user@example.com/",
    "https://user:word@example.com/",
    "https://example.com@127.0.0.1/",
    "https://127.0.0.1@example.com/",
    "https://example.com:443@10.0.0.1/",
    "https://example.com\\@127.0.0.1/",
    "https://127.0.0.1\\.example.com/",
    "https://example.com#@127.0.0.1/",
    "https://exa mple.com/",
    "https://example.com\t/",
    "https://example.com/\r\nHost: 127.0.0.1",
    "https://%31%32%37.0.0.1/",
    "https://example.com%00.127.0.0.1/",
    "https://example.com:22/",
    "https://example.com:25/",
    "https://example.com:0/",
    "https://example.com:65536/",
    "https://example.com:99999999/",
    "https://example.com:x/",
    "https:///path",
    "https://",
    "https:example.com",
    "//example.com/",
    "http://example.com/",
    "http://8.8.8.8/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "unix:///run/postgresql",
    "",
    "https://" + "a" * 64 + ".example/",
    "https://example.com/" + "a" * 2000,
]

NOBODY = AddressRule()
ONE = AddressRule([ip_network("127.0.0.1/32")])


@pytest.fixture(scope="module")
def witness() -> Witness:
    return Witness()


@pytest.fixture
def dns() -> Iterator[DnsServer]:
    with DnsServer() as server, resolved_by(server):
        yield server


def post(
    rule: AddressRule, url: str, *, limits: Limits | None = None, tls: ssl.SSLContext | None = None
) -> Answer:
    async def run() -> Answer:
        return await Poster(rule, limits or Limits(), tls).post(url, {"webhook-id": "1"}, b"{}")

    return asyncio.run(run())


def as_url(address: str) -> str:
    return f"https://[{address}]/" if ":" in address else f"https://{address}/"


def test_the_table_is_long_enough() -> None:
    assert len(set(ADDRESSES)) >= 60 and len(set(NOTATIONS)) >= 60


def test_every_address_is_refused_as_it_is_written(witness: Witness) -> None:
    with witness.watch() as connections:
        for address in ADDRESSES:
            assert not is_public(ip_address(address)), address
            with pytest.raises(UrlRefused):
                check_url(as_url(address), NOBODY)
            with pytest.raises(AddressRefused):
                post(NOBODY, as_url(address))
    assert connections == []


def test_every_notation_is_refused(witness: Witness, dns: DnsServer) -> None:
    with witness.watch() as connections:
        for url in NOTATIONS:
            with pytest.raises(UrlRefused):
                check_url(url, NOBODY)
            with pytest.raises(AddressRefused):
                post(NOBODY, url)
    assert connections == [] and dns.asked == []


def test_a_name_that_leads_to_one_of_them_is_refused_also_beside_a_public_one(
    witness: Witness, dns: DnsServer
) -> None:
    with witness.watch() as connections:
        for number, address in enumerate(ADDRESSES):
            for name, answer in (("only", [address]), ("last", ["8.8.8.8", address])):
                host = f"{name}{number}.test"
                dns.answers[host] = [answer]
                with pytest.raises(AddressRefused):
                    post(NOBODY, f"https://{host}/")
    assert connections == [] and len(dns.asked) == 2 * len(ADDRESSES)


def test_ordinary_addresses_and_urls_are_not_refused() -> None:
    for text in (
        "8.8.8.8",
        "1.1.1.1",
        "172.15.0.1",
        "172.32.0.1",
        "100.63.0.1",
        "100.128.0.1",
        "2606:4700::1111",
        "2a00:1450::1",
    ):
        assert is_public(ip_address(text)), text
        check_url(as_url(text), NOBODY)
    target = parse_url("HTTPS://Hooks.Example.com:8443/a/b?c=d&e=%20")
    assert (target.host, target.port, target.path) == ("hooks.example.com", 8443, "/a/b?c=d&e=%20")
    assert target.host_header == "hooks.example.com:8443"
    assert parse_url("https://xn--bcher-kva.example?x=1").path == "/?x=1"
    assert parse_url("https://[2606:4700::1111]:443/").host_header == "[2606:4700::1111]"
    assert parse_url("http://receiver/").host_header == "receiver"


def test_what_is_allowed_inside_is_that_alone() -> None:
    for url in (
        "http://127.0.0.2/",
        "https://127.0.0.2/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://2130706433/",
    ):
        with pytest.raises(UrlRefused):
            check_url(url, ONE)
    assert check_url("http://127.0.0.1:8080/", ONE).port == 8080
    check_url("http://by-name.test/", ONE)  # its addresses decide, when it is sent
    with pytest.raises(UrlRefused):
        check_url("http://8.8.8.8/", ONE)


def test_a_name_whose_answer_changes_is_asked_once_and_the_checked_address_gets_it(
    witness: Witness, dns: DnsServer
) -> None:
    """Whoever asked a second time, httpx or the event loop, would be sent to 127.0.0.2, where a second receiver waits."""
    with Receiver() as right, Receiver("127.0.0.2", right.port) as wrong:
        dns.answers["changing.test"] = [["127.0.0.1"], ["127.0.0.2"]]
        with witness.watch() as connections:
            answer = post(ONE, f"http://changing.test:{right.port}/hook")
        assert answer.status == 200 and dns.asked == ["changing.test"]
        assert connections == ["127.0.0.1"]
        assert (len(right.received), len(wrong.received)) == (1, 0)
        assert right.received[0].headers["host"] == f"changing.test:{right.port}"

        dns.answers["changed.test"] = [["127.0.0.2"], ["127.0.0.1"]]
        with witness.watch() as connections, pytest.raises(AddressRefused):
            post(ONE, f"http://changed.test:{right.port}/hook")
        assert connections == [] and wrong.received == []

        dns.answers["both.test"] = [["127.0.0.1", "127.0.0.2"]]
        with witness.watch() as connections, pytest.raises(AddressRefused):
            post(ONE, f"http://both.test:{right.port}/hook")
        assert connections == []


def test_http_by_name_is_for_allowed_networks_alone(witness: Witness, dns: DnsServer) -> None:
    dns.answers["public.test"] = [["8.8.8.8"]]
    with witness.watch() as connections, pytest.raises(AddressRefused, match="http is only for"):
        post(ONE, "http://public.test/")
    assert connections == []


def test_a_body_over_its_limit_is_not_sent(witness: Witness) -> None:
    with witness.watch() as connections, pytest.raises(OutgoingError, match="65536"):
        asyncio.run(Poster(ONE).post("http://127.0.0.1:9999/", {}, b"x" * 65_537))
    assert connections == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(witness: Witness, status: int) -> None:
    with Receiver() as there, Receiver() as here:
        here.reset(Reply(status, {"Location": there.url, "Refresh": f"0;url={there.url}"}))
        with witness.watch() as connections:
            assert post(ONE, here.url).status == status
        assert connections == ["127.0.0.1"] and there.received == []


def test_no_proxy_of_the_environment_is_used(witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver("127.0.0.2") as proxy, Receiver() as here:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.2:{proxy.port}")
        assert post(ONE, here.url).status == 200
        assert proxy.received == [] and len(here.received) == 1


def test_a_name_without_an_address_and_the_next_address_of_one(dns: DnsServer) -> None:
    two = AddressRule([ip_network("127.0.0.0/30")])
    with pytest.raises(Unreachable, match="no address"):
        post(two, "https://nowhere.test/")
    with Receiver() as here:
        dns.answers["several.test"] = [["127.0.0.3", "127.0.0.1"]]  # nobody listens at the first
        assert post(two, f"http://several.test:{here.port}/").status == 200


def test_answers_are_read_up_to_2_kb_and_for_a_bounded_time() -> None:
    async def run(head: bytes, body: bytes, pause: float = 0.0) -> Answer:
        done = asyncio.Event()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head)
            try:
                while not done.is_set():
                    writer.write(body)
                    await writer.drain()
                    await asyncio.sleep(pause)
            except ConnectionError:
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            poster = Poster(ONE, Limits(connect=5, silence=1, total=3))
            return await poster.post(f"http://127.0.0.1:{port}/", {}, b"{}")
        finally:
            done.set()
            server.close()

    fine = b"HTTP/1.1 200 OK\r\n\r\n"
    endless = asyncio.run(run(fine, b"x" * 65536))
    assert len(endless.body) == 2048
    dripping = asyncio.run(run(fine, b"y", 0.2))
    assert dripping.status == 200 and 0 < len(dripping.body) < 100
    bomb = asyncio.run(run(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", b"\x1f\x8b" * 4096))
    assert len(bomb.body) == 2048, "it is kept as it came, not unpacked"
    with pytest.raises(TooSlow):
        asyncio.run(run(b"HTTP/1.1 200 OK\r\n", b"x-drip: 1\r\n", 0.2))  # a head without end
    with pytest.raises(Unreachable):
        asyncio.run(run(b"HTTP/1.1 200 OK\r\nx: " + b"x" * 200_000, b"x" * 1000))
    with pytest.raises(Unreachable, match="no HTTP"):
        asyncio.run(run(b"+OK redis\r\n\r\n", b"+OK\r\n"))


def test_tls_is_checked_against_the_name_not_the_address(tmp_path: Path, dns: DnsServer) -> None:
    dns.answers = {"hooks.test": [["127.0.0.1"]], "other.test": [["127.0.0.1"]]}
    server_tls, client_tls = certificate("hooks.test", tmp_path)
    named: list[str | None] = []
    server_tls.sni_callback = lambda _, name, __: named.append(name)
    with Receiver(tls=server_tls) as here:
        assert post(ONE, f"https://hooks.test:{here.port}/hook", tls=client_tls).status == 200
        assert named == ["hooks.test"]
        assert here.received[0].headers["host"] == f"hooks.test:{here.port}"
        for name in ("other.test", "127.0.0.1"):
            with pytest.raises(Unreachable, match="certificate"):
                post(ONE, f"https://{name}:{here.port}/hook", tls=client_tls)
        with pytest.raises(Unreachable, match="certificate"):
            post(ONE, f"https://hooks.test:{here.port}/hook")  # nobody trusts its authority
        assert len(here.received) == 1


def certificate(name: str, folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server that is `name`, and a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    return server, ssl.create_default_context(cafile=str(path))
