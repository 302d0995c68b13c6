"""The built wheel, installed in an empty environment, is whole and starts."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import asyncpg
import pytest

from tests.support.servers import ROOT

PACKAGE = ROOT / "src" / "lingxi"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what is in the tree, by the locked build backend."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", "."]
    subprocess.run(command, cwd=source, check=True, capture_output=True, text=True)
    (built,) = (source / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an empty environment with the wheel and the locked dependencies, nothing else."""
    environment = tmp_path_factory.mktemp("an empty environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install"]
    pip += ["-qq", "--no-input", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    for lock in ("requirements-build.lock", "requirements.lock"):
        subprocess.run(
            [*pip, "--require-hashes", "-r", str(ROOT / lock)], check=True, env=without_pythonpath()
        )
    subprocess.run([*pip, str(wheel)], check=True, env=without_pythonpath())
    return environment / "bin"


def without_pythonpath() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


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
