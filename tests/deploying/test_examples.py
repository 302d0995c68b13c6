"""The examples of `infra/` say what is true: a renamed setting, command, metric or address turns this red."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
import redis
import typer
import yaml

from lingxi import __version__
from lingxi.cli.app import build
from lingxi.embedded.supervise import free_port
from lingxi.names import GROUPS
from lingxi.settings import Settings
from lingxi.worker.config import WorkerConfig
from tests.deploying.conftest import Deployed
from tests.deploying.page import block, follow
from tests.support.programs import need_program
from tests.support.servers import ROOT
from tests.support.waiting import wait_until

INFRA = ROOT / "infra"
UNITS = sorted((INFRA / "systemd").glob("*.service"))
MANIFESTS = sorted(
    path for path in (INFRA / "kubernetes").glob("*.yaml") if path.name != "kustomization.yaml"
)
COMPOSE = INFRA / "compose/compose.yaml"
DEPLOYED_GROUPS = tuple(group for group in GROUPS if group != "demo")
STOP_SECONDS = WorkerConfig(
    "w", "", "", (), grace_seconds=Settings.model_fields["grace_seconds"].default
).longest_stop_seconds
SETTINGS = {name.upper() for name in Settings.model_fields}
NOT_OURS = {"PROCESSES", "MALLOC_ARENA_MAX", "PATH", "PYTHONDONTWRITEBYTECODE"}
LEAST_EXPOSURE = 20  # of `systemd-analyze security`, in tenths; 0 is a service that can do nothing


def assert_settings(environment: dict[str, Any]) -> None:
    """Every name is a setting, and values that need nothing else are accepted together."""
    assert set(environment) - SETTINGS - NOT_OURS == set()
    given = {
        name.lower(): value
        for name, value in environment.items()
        if name in SETTINGS and "$" not in str(value)
    }
    Settings(**{"aws_access_key_id": "x", "aws_secret_access_key": "x", **given})


def assert_command(arguments: list[str]) -> None:
    """`lingxi ARGUMENTS` is a command of ours, and it takes these options."""
    commands = typer.main.get_command(build()).commands  # type: ignore[attr-defined]
    command = commands[arguments[0]]
    known = {option for parameter in command.params for option in parameter.opts}
    assert [word for word in arguments[1:] if word.startswith("--") and word not in known] == []


def env_file(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    pairs = (line.split("=", 1) for line in lines)
    return {name: value.strip("'") for name, value in pairs}


# ── systemd ──────────────────────────────────────────────────────────────────────────────────────────────
def unit(path: Path) -> dict[str, list[str]]:
    """All settings of the section [Service], each with its values in their order."""
    found: dict[str, list[str]] = {}
    section = path.read_text().split("[Service]")[1].split("\n[")[0]
    for line in section.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_units_name_what_there_is(path: Path) -> None:
    service = unit(path)
    program, *arguments = service["ExecStart"][0].split()
    assert program == "/opt/lingxi/bin/lingxi"
    assert_command(arguments)
    assert_settings(dict(line.split("=", 1) for line in service["Environment"] if "%" not in line))
    if "TimeoutStopSec" in service and arguments[0] == "worker":
        assert int(service["TimeoutStopSec"][0]) > STOP_SECONDS


def test_every_group_may_be_an_instance_and_the_settings_file_is_right() -> None:
    assert "Environment=QUEUE=%i" in (INFRA / "systemd/lingxi-worker@.service").read_text()
    example = env_file(INFRA / "systemd/lingxi.env.example")
    assert_settings(example)
    assert example["LINGXI_QUEUES"].split(",") == list(DEPLOYED_GROUPS)


def test_a_shell_reads_the_settings_file_as_systemd_does() -> None:
    """The page has it sourced before `lingxi token create`; a bare `&` would end a value there."""
    path = INFRA / "systemd/lingxi.env.example"
    source = ["sh", "-euc", 'set -a; . "$0"; env -0', str(path)]
    run = subprocess.run(source, env={"PATH": os.defpath}, capture_output=True, text=True, check=True)
    read = dict(pair.split("=", 1) for pair in run.stdout.split("\0") if pair)
    assert {name: read.get(name) for name in env_file(path)} == env_file(path)
    assert run.stderr == ""


def test_the_installation_has_the_folder_of_this_version_and_what_the_units_name() -> None:
    """The link is turned last, so that what starts again meanwhile is the old version, whole."""
    lines = block("install").splitlines()
    assert set(re.findall(r"/opt/lingxi-([^/\s]+)", block("install"))) == {__version__}
    assert lines[-2:] == [f"ln -sfn /opt/lingxi-{__version__} /opt/lingxi", "/opt/lingxi/bin/lingxi --help"]
    for path in UNITS:
        (named,) = re.findall(r"^Documentation=file:///opt/lingxi/(\S+)$", path.read_text(), re.MULTILINE)
        assert (ROOT / named).exists()
        assert f"cp -r {named.split('/')[0]} /opt/lingxi-{__version__}/" in lines


# ── Redis ────────────────────────────────────────────────────────────────────────────────────────────────
def test_redis_starts_with_the_users_file_of_the_page(tmp_path: Path) -> None:
    """It refuses to start on a file in which anything but users stands, comments included."""
    follow("redis", tmp_path, REDIS_PASSWORD="of the page")
    port = free_port()
    server = subprocess.Popen(
        [
            need_program("redis-server", "that reads the file of users"),
            *("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)),
            *("--aclfile", str(tmp_path / "users.acl")),
        ],
        stdout=subprocess.DEVNULL,
    )
    try:
        with redis.Redis(port=port, username="lingxi", password="of the page") as application:

            async def answers() -> bool:
                assert server.poll() is None, "it did not start"
                try:
                    return bool(application.ping())
                except redis.ConnectionError:
                    return False

            asyncio.run(wait_until(answers, 20))
        with redis.Redis(port=port) as nobody, pytest.raises(redis.AuthenticationError):
            nobody.ping()
    finally:
        server.terminate()
        server.wait(20)


def test_systemd_accepts_the_units_and_rates_them(tmp_path: Path) -> None:
    """With a program that is there; without systemd's own tools there is nobody to ask."""
    analyze = need_program("systemd-analyze", "to verify units")
    for path in [*UNITS, INFRA / "systemd/lingxi.target"]:
        text = path.read_text().replace("/opt/lingxi/bin/lingxi", "/bin/true")
        (tmp_path / path.name.replace("@", "@media")).write_text(text)
    files = sorted(map(str, tmp_path.iterdir()))
    verified = subprocess.run([analyze, "verify", "--man=no", *files], capture_output=True, text=True)
    assert (verified.returncode, verified.stderr) == (0, "")
    services = [file for file in files if file.endswith(".service")]
    rate = [analyze, "security", "--offline=true", f"--threshold={LEAST_EXPOSURE}", *services]
    rated = subprocess.run(rate, capture_output=True, text=True)
    assert rated.returncode == 0, rated.stdout[-2000:]


# ── containers ───────────────────────────────────────────────────────────────────────────────────────────
def test_the_container_file_installs_from_the_locks_and_runs_as_nobody_special() -> None:
    text = (INFRA / "container/Containerfile").read_text()
    instructions = re.sub(r"\\\n\s*", "", text)
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for copied in re.findall(r"^COPY (?!--from)(.*)$", instructions, re.MULTILINE):
        for source in copied.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert any(fnmatch(source, pattern) for pattern in allowed), source
    for lock in ("requirements-build.lock", "requirements-wheel.lock", "requirements.lock"):
        assert re.search(rf"--require-hashes.* -r {re.escape(lock)}\b", instructions), lock
    site = Path(asyncpg.__file__).parents[1]
    (stripped,) = re.findall(r"&& find ([a-z_ ]+) -name '\*\.so' -exec strip", instructions)
    for package in stripped.split():
        assert list((site / package).rglob("*.so")), f"{package} has nothing to strip"
        assert not (site / f"{package}.libs").exists(), f"{package} would not survive strip"
    environment = dict(
        re.findall(r"\b([A-Z_]+)=(\S+)", "".join(re.findall(r"^ENV (PATH.*)$", instructions, re.MULTILINE)))
    )
    assert_settings(environment)
    (user,) = re.findall(r"^USER (\d+):\d+$", text, re.MULTILINE)
    assert int(user) > 0
    assert text.index("USER ") > text.rindex("RUN ")
    assert str(Settings.model_fields["lingxi_port"].default) in re.findall(
        r"^EXPOSE (\d+)$", text, re.MULTILINE
    )
    (entry,), (command,) = (
        re.findall(rf"^{word} (\[.*\])$", text, re.MULTILINE) for word in ("ENTRYPOINT", "CMD")
    )
    assert yaml.safe_load(entry)[-1] == "lingxi"
    assert_command(yaml.safe_load(command))


def test_the_image_is_asked_for_its_health_by_a_command_that_works(deployed: Deployed) -> None:
    text = (INFRA / "container/Containerfile").read_text()
    (probe,) = re.findall(r"HEALTHCHECK [^[]*CMD (\[.*\])$", text, re.MULTILINE)
    command = [word.replace("http://127.0.0.1:3000", deployed.url) for word in yaml.safe_load(probe)]
    assert deployed.url in command[-1]
    assert subprocess.run(command).returncode == 0
    gone = [word.replace(deployed.url, f"http://127.0.0.1:{free_port()}") for word in command]
    assert subprocess.run(gone, stderr=subprocess.DEVNULL).returncode == 1


def test_compose_runs_each_group_read_only_with_known_settings() -> None:
    text = COMPOSE.read_text()
    services = yaml.safe_load(text)["services"]
    ours = {name: service for name, service in services.items() if service["image"] == "lingxi"}
    assert {service["environment"].get("QUEUE") for service in ours.values()} - {None} == set(DEPLOYED_GROUPS)
    for name, service in ours.items():
        assert_command(service["command"])
        assert_settings(service["environment"])
        assert name == "migrate" or "rights" in service["depends_on"]
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert service["build"]["dockerfile"] == "infra/container/Containerfile"
        if name.startswith("worker"):
            assert int(service["stop_grace_period"].removesuffix("s")) > STOP_SECONDS
            assert service["healthcheck"] == {"disable": True}
    for service in services.values():
        for source in (volume.split(":")[0] for volume in service.get("volumes", ())):
            assert not source.startswith(".") or (COMPOSE.parent / source).exists(), source
        assert set(service.get("depends_on", ())) <= set(services)
    asked = set(re.findall(r"(?<!\$)\$\{(\w+)", text))
    assert asked == set(env_file(INFRA / "compose/.env.example"))


# ── Kubernetes ───────────────────────────────────────────────────────────────────────────────────────────
@cache
def manifests() -> list[dict[str, Any]]:
    return [found for path in MANIFESTS for found in yaml.safe_load_all(path.read_text())]


def of_kind(*kinds: str) -> list[dict[str, Any]]:
    return [found for found in manifests() if found["kind"] in kinds]


def pods() -> list[tuple[str, dict[str, Any]]]:
    return [(one["metadata"]["name"], one["spec"]["template"]) for one in of_kind("Deployment", "Job")]


def test_the_kustomization_lists_what_there_is() -> None:
    listed = yaml.safe_load((INFRA / "kubernetes/kustomization.yaml").read_text())
    apart = {"migrate.yaml", "secret.example.yaml"}  # once a version; made by hand
    assert set(listed["resources"]) == {path.name for path in MANIFESTS} - apart
    assert [image["newTag"] for image in listed["images"]] == [__version__]


@pytest.mark.parametrize(("name", "pod"), pods(), ids=lambda value: value if isinstance(value, str) else "")
def test_pods_run_this_version_with_no_rights(name: str, pod: dict[str, Any]) -> None:
    spec = pod["spec"]
    (container,) = spec["containers"]
    assert container["image"].endswith(f"/lingxi:{__version__}")
    assert_command(container["args"])
    assert_settings({one["name"]: one["value"] for one in container.get("env", ())})
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    written = {mount["name"] for mount in container["volumeMounts"]}
    assert written == {volume["name"] for volume in spec["volumes"]}
    assert container["resources"]["limits"]["memory"] and container["resources"]["requests"]["cpu"]
    if container["args"][0] == "worker":
        assert spec["terminationGracePeriodSeconds"] > STOP_SECONDS
    sources = [source for one in container["envFrom"] for source in one.values()]
    there = {one["metadata"]["name"] for one in of_kind("ConfigMap", "Secret")}
    assert {source["name"] for source in sources} <= there


def test_settings_of_the_cluster_are_settings() -> None:
    for config in of_kind("ConfigMap", "Secret"):
        assert_settings(config.get("data") or config["stringData"])


async def test_probes_and_scrapes_lead_to_addresses_that_answer(deployed: Deployed) -> None:
    """On METRICS_BIND's port, which the Ingress does not know."""
    (api,) = [pod for name, pod in pods() if name == "lingxi-api"]
    (container,) = api["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    (settings,) = of_kind("ConfigMap")
    assert settings["data"]["METRICS_BIND"].rpartition(":")[2] == str(ports["inside"])
    probes = [container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    notes = api["metadata"]["annotations"]
    assert notes["prometheus.io/port"] == str(ports["inside"])
    async with httpx.AsyncClient(base_url=deployed.url) as client:
        for path in [*(probe["path"] for probe in probes), notes["prometheus.io/path"]]:
            assert (await client.get(path)).status_code == 200, path
    assert {probe["port"] for probe in probes} == {"inside"}
    (service,), (ingress,) = of_kind("Service"), of_kind("Ingress")
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["http"]
    (path,) = ingress["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"]["name"] == service["metadata"]["name"]


def test_each_group_has_a_deployment_a_budget_and_a_scaler_of_its_own() -> None:
    wanted = {f"lingxi-worker-{group}" for group in DEPLOYED_GROUPS}
    for kind, others in (
        ("Deployment", {"lingxi-api"}),
        ("PodDisruptionBudget", {"lingxi-api"}),
        ("ScaledObject", set()),
    ):
        assert {one["metadata"]["name"] for one in of_kind(kind)} == wanted | others
    labels = {name: pod["metadata"]["labels"] for name, pod in pods()}
    for one in of_kind("Deployment", "PodDisruptionBudget"):
        assert one["spec"]["selector"]["matchLabels"] == labels[one["metadata"]["name"]]
    for scaled in of_kind("ScaledObject"):
        name = scaled["metadata"]["name"]
        assert scaled["spec"]["scaleTargetRef"]["name"] == name
        (pod,) = [pod for found, pod in pods() if found == name]
        (queue,) = pod["spec"]["containers"][0]["env"]
        assert queue == {"name": "QUEUE", "value": name.removeprefix("lingxi-worker-")}


def scaling_queries() -> dict[str, str]:
    return {
        one["metadata"]["name"].removeprefix("lingxi-worker-"): one["spec"]["triggers"][0]["metadata"][
            "query"
        ]
        for one in of_kind("ScaledObject")
    }


@pytest.fixture
def prometheus(deployed: Deployed, tmp_path: Path) -> Iterator[str]:
    """The address of a Prometheus that scrapes the deployment."""
    port = free_port()
    target = deployed.url.removeprefix("http://")
    job = {
        "job_name": "lingxi-api",
        "metrics_path": "/api/v1/metrics",
        "static_configs": [{"targets": [target]}],
    }
    (tmp_path / "prometheus.yml").write_text(
        yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]})
    )
    program = need_program("prometheus", "to ask what scales workers")
    command = [program, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    process = subprocess.Popen(
        [*command, f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(20)


async def test_what_scales_workers_counts_the_jobs_of_their_group(
    deployed: Deployed, prometheus: str
) -> None:
    """Three photos' probes wait: the media group's number is 3, all others' are 0, and each query has one answer."""
    async with httpx.AsyncClient() as client:
        body = {"type": "media:probe", "items": [{"input": {"object": f"none-{n}"}} for n in range(3)]}
        headers = {"Authorization": f"Bearer {deployed.token}"}
        task = await client.post(f"{deployed.url}/api/v1/media-tasks", json=body, headers=headers)
        assert task.status_code == 202, task.text

        async def answers() -> dict[str, list[float]]:
            found = {}
            for group, query in scaling_queries().items():
                answer = await client.get(f"{prometheus}/api/v1/query", params={"query": query})
                answer.raise_for_status()
                found[group] = [float(one["value"][1]) for one in answer.json()["data"]["result"]]
            return found

        async def counted() -> bool:
            try:
                return await answers() == {
                    group: [3.0 if group == "media" else 0.0] for group in DEPLOYED_GROUPS
                }
            except httpx.HTTPError:  # it is starting
                return False

        await wait_until(counted, 40)
        cancelled = f"{deployed.url}/api/v1/media-tasks/{task.json()['id']}/cancel"
        assert (await client.post(cancelled, headers=headers)).status_code == 200
