"""nginx and Caddy with the examples of `infra/`, in front of an API that runs."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from lingxi.embedded.supervise import free_port
from lingxi.settings import Settings
from tests.deploying.conftest import MAX_BODY_BYTES, Deployed
from tests.support.certificates import Certificates, make_certificates
from tests.support.pictures import picture
from tests.support.programs import need_program
from tests.support.servers import ROOT
from tests.support.waiting import wait_until, wait_until_sync

MEBIBYTE = 1024 * 1024
UPLOAD_BYTES = 50 * MEBIBYTE
OUTSIDE = "127.0.0.9"  # no proxy that the API believes


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that runs in front of the deployment."""

    url: str
    certificates: Certificates

    def client(self, token: str | None = None, **headers: str) -> httpx.AsyncClient:
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return httpx.AsyncClient(
            base_url=self.url, headers=headers, verify=self.certificates.context(), timeout=20
        )


def replaced(text: str, *changes: tuple[str, str]) -> str:
    """The example with other names and addresses; each was there."""
    for was, becomes in changes:
        assert was in text, was
        text = text.replace(was, becomes)
    return text


def nginx_command(folder: Path, api: str, port: int, made: Certificates) -> list[str]:
    site = replaced(
        (ROOT / "infra/nginx/lingxi.conf").read_text("utf-8"),
        ("127.0.0.1:3000", api),
        ("listen 80;", f"listen 127.0.0.1:{free_port()};"),
        ("listen [::]:80;", ""),
        ("listen 443 ssl http2;", f"listen 127.0.0.1:{port} ssl http2;"),
        ("listen [::]:443 ssl http2;", ""),
        ("lingxi.example.org", "localhost"),
        ("/etc/ssl/lingxi/fullchain.pem", str(made.server)),
        ("/etc/ssl/private/lingxi.key", str(made.key)),
        ("/var/log/nginx/lingxi.log", str(folder / "access.log")),
        ("/var/log/nginx/lingxi-error.log", str(folder / "site-error.log")),
    )
    (folder / "lingxi.conf").write_text(site, "utf-8")
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"{'user root;' if os.geteuid() == 0 else ''}\ndaemon off;\npid {folder}/nginx.pid;\nworker_processes 1;\n"
        f"error_log {folder}/error.log;\nevents {{}}\nhttp {{\n{temporary}include {folder}/lingxi.conf;\n}}\n"
    )
    return [
        need_program("nginx", "to stand in front of an API"),
        "-p",
        str(folder),
        "-c",
        f"{folder}/nginx.conf",
    ]


def caddy_command(folder: Path, api: str, port: int, made: Certificates) -> list[str]:
    site = replaced(
        (ROOT / "infra/caddy/Caddyfile").read_text("utf-8"),
        ("127.0.0.1:3000", api),
        (
            "lingxi.example.org {",
            f"https://localhost:{port} {{\n\tbind 127.0.0.1\n\ttls {made.server} {made.key}",
        ),
        ("{\n\t# With", f"{{\n\tadmin off\n\tauto_https off\n\tstorage file_system {folder}/caddy\n\t# With"),
    )
    (folder / "Caddyfile").write_text(site, "utf-8")
    program = need_program("caddy", "to stand in front of an API")
    return [program, "run", "--config", f"{folder}/Caddyfile", "--adapter", "caddyfile"]


@contextmanager
def running(command: list[str], folder: Path, url: str, made: Certificates) -> Iterator[Proxy]:
    with (folder / "proxy.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "HOME": str(folder)})
    try:
        with httpx.Client(verify=made.context()) as client:

            def answers() -> bool:
                assert process.poll() is None, (folder / "proxy.log").read_text()
                try:
                    return client.get(url).status_code > 0
                except httpx.TransportError:
                    return False

            wait_until_sync(answers, 20)
        yield Proxy(url, made)
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module", params=["nginx", "caddy"])
def proxy(
    request: pytest.FixtureRequest, deployed: Deployed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxy]:
    folder, port = tmp_path_factory.mktemp(request.param), free_port()
    made = make_certificates(folder / "tls")
    make_command = nginx_command if request.param == "nginx" else caddy_command
    command = make_command(folder, deployed.url.removeprefix("http://"), port, made)
    with running(command, folder, f"https://localhost:{port}", made) as started:
        yield started
        if request.param == "nginx":  # who comes without TLS is sent on; the address is a secret there too
            (plain,) = re.findall(r"listen 127\.0\.0\.1:(\d+);", (folder / "lingxi.conf").read_text())
            assert httpx.get(f"http://127.0.0.1:{plain}/s/a-secret?x=a-secret").status_code == 308
    if request.param == "nginx":
        assert '"GET /s/- HTTP/1.1" 308' in (folder / "access.log").read_text()
    for log in folder.glob("*.log"):
        assert "a-secret" not in log.read_text(), log.name


@pytest.mark.parametrize("make_command", [nginx_command, caddy_command])
def test_an_api_that_is_away_leaves_no_secret_in_a_log(
    make_command: Callable[[Path, str, int, Certificates], list[str]], tmp_path: Path
) -> None:
    """Proxies like to quote the address of what failed."""
    port, made = free_port(), make_certificates(tmp_path / "tls")
    command = make_command(tmp_path, f"127.0.0.1:{free_port()}", port, made)
    with (
        running(command, tmp_path, f"https://localhost:{port}", made) as proxy,
        httpx.Client(verify=made.context(), base_url=proxy.url) as client,
    ):
        assert client.get("/s/a-secret", params={"token": "a-secret"}).status_code == 502
    assert [log.name for log in tmp_path.glob("*.log") if "a-secret" in log.read_text()] == []


async def frames(answer: httpx.Response) -> AsyncIterator[str]:
    """The names of frames as they come."""
    async for line in answer.aiter_lines():
        if line.startswith("event: "):
            yield line.removeprefix("event: ")


async def submitted(client: httpx.AsyncClient, items: int = 2) -> str:
    body = {"type": "demo:drill", "items": [{"input": {}} for _ in range(items)]}
    answer = await client.post("/api/v1/media-tasks", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def test_frames_come_at_once_and_streams_resume(deployed: Deployed, proxy: Proxy) -> None:
    """Nobody works here, so the stream stays open and small: whatever gathers bytes would keep the first frame."""
    async with proxy.client(deployed.token) as client:
        task = await submitted(client)
        path = f"/api/v1/media-tasks/{task}/events"
        async with client.stream("GET", path) as answer:
            seen = frames(answer)
            assert await anext(seen) == "snapshot"
            assert (await client.post(f"/api/v1/media-tasks/{task}/cancel")).status_code == 200
            assert [name async for name in seen if name != "progress"] == ["item", "item", "end"]
        async with client.stream("GET", path, headers={"Last-Event-ID": "3"}) as answer:
            resumed = [name async for name in frames(answer)]
            assert "snapshot" not in resumed and resumed[-1] == "end"


async def test_a_large_upload_streams_through(deployed: Deployed, proxy: Proxy) -> None:
    """The API writes its first bytes while the last ones have not been sent."""
    objects = Path(deployed.env["STORAGE_URL"].removeprefix("file://"))
    name = proxy.url.rpartition(":")[2]
    digest = hashlib.sha256()

    async def body() -> AsyncIterator[bytes]:
        for number in range(UPLOAD_BYTES // MEBIBYTE):
            if number == 8:
                await wait_until(lambda: any(path.stat().st_size > 0 for path in unfinished()), 15)
            part = number.to_bytes(4, "big") * (MEBIBYTE // 4)
            digest.update(part)
            yield part

    def unfinished() -> list[Path]:
        return [path for path in (objects / "unfinished").rglob("*") if path.is_file()]

    async with proxy.client(deployed.token) as client:
        answer = await client.put(
            f"/api/v1/objects/large-{name}.bin", content=body(), headers={"Content-Length": str(UPLOAD_BYTES)}
        )
        assert answer.status_code == 201, answer.text
        assert answer.json()["sha256"] == digest.hexdigest()


async def test_a_resumable_upload_keeps_what_came_before_the_line_broke(
    deployed: Deployed, proxy: Proxy
) -> None:
    """Larger than what a JSON body may be, and cut after half: whatever gathers bodies would have passed on nothing."""
    size, sent = 40 * MEBIBYTE, 20 * MEBIBYTE
    tus = {"Tus-Resumable": "1.0.0"}

    async def half_of_it() -> AsyncIterator[bytes]:
        yield picture()
        for _ in range(sent // MEBIBYTE):
            yield bytes(MEBIBYTE)
        raise ConnectionError("the line broke")

    async with proxy.client(deployed.token, **tus) as client:
        album = (await client.post("/api/v1/albums", json={"name": "cut"})).json()["id"]
        made = await client.post(f"/api/v1/albums/{album}/uploads", headers={"Upload-Length": str(size)})
        assert made.status_code == 201, made.text
        upload = made.headers["Location"]
        patch = {
            "Upload-Offset": "0",
            "Content-Type": "application/offset+octet-stream",
            "Content-Length": str(size),
        }
        with pytest.raises(ConnectionError, match="the line broke"):
            await client.patch(upload, headers=patch, content=half_of_it())
        kept = int((await client.head(upload)).headers["Upload-Offset"])
        assert sent // 2 < kept < size
        assert (await client.delete(upload)).status_code == 204


async def test_a_body_over_the_limit_is_refused_by_the_api(deployed: Deployed, proxy: Proxy) -> None:
    """The proxy lets a little more pass, so that the answer is the API's; what is far above ends at the proxy."""
    async with proxy.client(deployed.token) as client:
        answer = await client.post("/api/v1/media-tasks", content=b" " * (MAX_BODY_BYTES + 1))
        assert (answer.status_code, answer.json()["code"]) == (413, 41301)
        try:
            status = (await client.post("/api/v1/media-tasks", content=b" " * (18 * MEBIBYTE))).status_code
        except httpx.TransportError:  # Caddy may close the connection on a client that goes on sending
            status = 413
        assert status == 413


def test_limits_of_the_examples_are_just_above_the_defaults() -> None:
    """In each example: bodies, uploads. Another default asks for another example."""
    wanted = [
        Settings.model_fields["max_body_bytes"].default // MEBIBYTE + 1,
        Settings.model_fields["max_upload_bytes"].default // MEBIBYTE + 1,
    ]
    nginx = re.findall(r"client_max_body_size (\d+)m;", (ROOT / "infra/nginx/lingxi.conf").read_text())
    caddy = re.findall(r"max_size (\d+)MiB", (ROOT / "infra/caddy/Caddyfile").read_text())
    assert [int(found) for found in nginx] == [int(found) for found in caddy] == wanted


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/metrics",
        "/api/v1/health/live",
        "/api/v1/health/ready",
        "/api/v1/health/queues",
        "/api/v1/metrics/",
        "/api/v1/metrics?x=1",
        "//api/v1//metrics",
        "/api/v1/%6detrics",
        "/api/v1/x/../metrics",
        "/API/v1/metrics",
    ],
)
async def test_what_is_for_the_inside_stays_there(deployed: Deployed, proxy: Proxy, path: str) -> None:
    async with proxy.client() as client:
        answer = await client.get(httpx.URL(proxy.url).copy_with(raw_path=path.encode()))
        assert answer.status_code in (403, 404), answer.text[:200]
        assert "lingxi_" not in answer.text and "status" not in answer.text[:10]
    async with httpx.AsyncClient() as inside:
        assert (await inside.get(deployed.url + "/api/v1/metrics")).status_code == 200


async def test_the_proxy_alone_is_believed(deployed: Deployed, proxy: Proxy) -> None:
    """Who came by https gets a Secure cookie; who only says so does not. Addresses that clients claim are counted as one."""
    claims = {
        "X-Forwarded-Proto": "https",
        "X-Forwarded-For": "203.0.113.7",
        "Forwarded": "for=203.0.113.7;proto=https",
    }
    bearer = {"Authorization": f"Bearer {deployed.token}"}
    async with proxy.client(deployed.token) as client:
        assert "secure" in (await client.post("/api/v1/session")).headers["set-cookie"].lower()
        statuses = [
            (await client.get("/s/a-secret", headers={"X-Forwarded-For": f"203.0.113.{n}"})).status_code
            for n in range(5)
        ]
        assert statuses[-1] == 429
    transport = httpx.AsyncHTTPTransport(local_address=OUTSIDE)
    async with httpx.AsyncClient(base_url=deployed.url, transport=transport) as direct:
        answer = await direct.post("/api/v1/session", headers=claims | bearer)
        assert answer.status_code < 300, answer.text
        assert "secure" not in answer.headers["set-cookie"].lower()
