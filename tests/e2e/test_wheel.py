"""The built wheel is whole, and what the page on deploying installs starts."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import asyncpg
import pytest

from tests.deploying.page import follow
from tests.support.servers import ROOT

PACKAGE = ROOT / "src" / "lingxi"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is in the tree and an installation needs."""
    folder = tmp_path_factory.mktemp("source")
    for path in (
        *ROOT.glob("requirements*.lock"),
        *(ROOT / n for n in ("pyproject.toml", "README.md", "LICENSE")),
    ):
        shutil.copy(path, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs", folder / "docs")
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    """Built by the locked build backend."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", "."]
    subprocess.run(command, cwd=source, check=True, capture_output=True, text=True)
    (built,) = (source / "dist").glob("*.whl")
    return built


@pytest.fixture(
    scope="module",
    params=["beside what is installed here", pytest.param("by the page", marks=pytest.mark.slow)],
)
def installed(request: pytest.FixtureRequest, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an installation: by the commands of `docs/deploying.md`, which take two minutes, or the wheel alone."""
    folder = tmp_path_factory.mktemp("installed") / "lingxi"
    if request.param == "by the page":
        pips = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        follow(
            "install",
            source,
            replacing=("/opt/lingxi", str(folder)),
            timeout_seconds=170,
            PYTHONPATH="",
            **pips,
        )
        return folder / "bin"
    venv.create(folder, symlinks=True)
    (libraries,) = folder.glob("lib/python*/site-packages")
    (libraries / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    wheel = request.getfixturevalue("wheel")
    command = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "-q"]
    subprocess.run([*command, "--no-deps", "--no-index", "--ignore-installed", str(wheel)], check=True)
    return folder / "bin"


def run_installed(installed: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The installed command, far from the source tree and with nothing of our environment."""
    return subprocess.run(
        [str(installed / "lingxi"), *arguments],
        cwd="/",
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", **env},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    shipped = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        f"lingxi/{path.relative_to(PACKAGE)}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted - shipped == set()
    for folder, suffix in (("db/queries", ".sql"), ("db/migrations", ".sql"), ("web", ".html")):
        assert any(name.startswith(f"lingxi/{folder}/") and name.endswith(suffix) for name in shipped), folder
    assert any(name.endswith("licenses/LICENSE") for name in shipped)
    assert not any(name.startswith("tests/") for name in shipped)


def test_the_installed_command_starts(installed: Path, tmp_path: Path) -> None:
    helped = run_installed(installed, "--help", HOME=str(tmp_path))
    assert helped.returncode == 0, helped.stderr
    for command in ("up", "worker", "submit", "retry-failed"):
        assert command in helped.stdout


async def test_the_installed_command_migrates(
    installed: Path, empty_database_url: str, tmp_path: Path
) -> None:
    settings = {
        "DATABASE_URL": empty_database_url,
        "LINGXI_DATA_DIR": str(tmp_path / "data"),
        "HOME": str(tmp_path),
    }
    migrated = run_installed(installed, "migrate", **settings)
    assert migrated.returncode == 0, migrated.stderr
    connection = await asyncpg.connect(empty_database_url)
    assert await connection.fetchval("select count(*) from media_tasks") == 0
    await connection.close()


def test_the_installed_package_finds_its_pages_and_servers(installed: Path) -> None:
    """In an empty environment the embedded servers are the wheels', and the API's pages are in the package."""
    code = (
        "import sys, importlib\n"
        "from lingxi.embedded.postgres import find_postgres_binaries\n"
        "from lingxi.embedded.valkey import find_valkey_server\n"
        "assert 'site-packages' in str(find_postgres_binaries()), find_postgres_binaries()\n"
        "assert 'site-packages' in str(find_valkey_server()), find_valkey_server()\n"
        "importlib.import_module('lingxi.api')\n"
        "importlib.import_module('lingxi.bootstrap.api')\n"
    )
    done = subprocess.run(
        [str(installed / "python"), "-I", "-c", code], cwd="/", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
