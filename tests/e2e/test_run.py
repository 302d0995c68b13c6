"""`./run` and the private environment that it makes."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.servers import ROOT


def locked(*packages: str) -> str:
    """A small lock of real entries."""
    blocks = re.split(r"^(?=[a-z0-9])", (ROOT / "requirements.lock").read_text(), flags=re.MULTILINE)
    return "".join(block for block in blocks if block.partition("==")[0] in packages)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script and locks of two small packages."""
    folder = tmp_path_factory.mktemp("house") / "with spaces"
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "environment.py", folder / "scripts")
    shutil.copy(ROOT / "requirements-build.lock", folder)
    (folder / "requirements.lock").write_text(locked("idna"))
    (folder / "requirements-dev.lock").write_text(locked("idna", "h11"))
    return folder


def prepare(house: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-I", str(house / "scripts" / "environment.py"), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    _, said = process.communicate(timeout=100)
    assert process.returncode == 0, said
    return said


def imports(house: Path, module: str) -> bool:
    command = [str(house / ".venv" / "bin" / "python"), "-I", "-c", f"import {module}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_an_environment_that_is_a_link_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "environment.py", tmp_path / "scripts")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "kept").touch()
    (tmp_path / ".venv").symlink_to(tmp_path / "other")
    process = prepare(tmp_path)
    assert "is a link" in process.communicate(timeout=100)[1]
    assert process.returncode == 1
    assert (tmp_path / "other" / "kept").exists()


@pytest.mark.slow
def test_two_at_once_make_one_environment_and_the_next_call_is_quick(house: Path) -> None:
    said = [finish(process) for process in (prepare(house), prepare(house))]
    assert sum("Setting up" in text for text in said) == 1
    assert imports(house, "idna")
    assert not imports(house, "h11")
    started = time.monotonic()
    assert finish(prepare(house)) == ""
    assert time.monotonic() - started < 5


@pytest.mark.slow
def test_another_lock_is_installed(house: Path) -> None:
    assert "Setting up" in finish(prepare(house, "--dev"))
    assert imports(house, "h11")
    assert finish(prepare(house)) == "", "what develops can also run"
    (house / "requirements-dev.lock").write_text(locked("idna", "h11", "typing-extensions"))
    assert "Setting up" in finish(prepare(house, "--dev"))
    assert imports(house, "typing_extensions")


@pytest.mark.slow
def test_a_moved_folder_gets_a_new_environment(house: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(house, moved, symlinks=True)
    (moved / ".venv" / "left-over").touch()
    assert "Setting up" in finish(prepare(moved))
    assert not (moved / ".venv" / "left-over").exists()


@pytest.mark.slow
def test_a_package_that_does_not_match_its_hash_is_refused(house: Path) -> None:
    good = (house / "requirements.lock").read_text()
    (house / "requirements.lock").write_text(
        re.sub(r"sha256:[0-9a-f]{64}", "sha256:" + "0" * 64, locked("click"))
    )
    (house / "requirements-dev.lock").write_text("")
    try:
        process = prepare(house)
        _, said = process.communicate(timeout=100)
        assert process.returncode == 1
        assert "hash" in said.lower()
        assert prepare(house).wait(100) == 1, "a failed environment is not taken for a good one"
    finally:
        (house / "requirements.lock").write_text(good)


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """`./run …` from another folder."""
    return subprocess.run(
        [str(ROOT / "run"), *arguments], cwd="/", env={**os.environ, **env}, capture_output=True, text=True
    )


def test_chaos_says_what_it_can_do() -> None:
    done = run("chaos")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--every-point" in done.stderr


def test_without_a_fitting_python_it_says_so(tmp_path: Path) -> None:
    for name in ("sh", "dirname"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")  # one that is too old
    (tmp_path / "python3").chmod(0o755)
    done = run("lingxi", "--version", PATH=str(tmp_path), LINGXI_PYTHON="")
    assert (done.returncode, done.stderr) == (1, "Lingxi needs Python 3.11 or newer, and found none.\n")


def test_help_needs_nothing() -> None:
    assert "./run COMMAND" in run().stdout
    assert run("help").stdout == run("--help").stdout == run().stdout
