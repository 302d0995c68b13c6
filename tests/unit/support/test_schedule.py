"""A file's tests stay on one test process, and so do those of a group that shares more; a run outlives its processes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

from tests.support.servers import ROOT

TEST = """
import os, pathlib, pytest

@pytest.mark.parametrize("number", range(6))
def test_it(number):
    with open(os.environ["RAN"], "a") as ran:
        print(pathlib.Path(__file__).name, os.environ["PYTEST_XDIST_WORKER"], file=ran)
"""

FATAL = (
    TEST
    + """
def test_fatal():
    os._exit(99)

def test_after():
    test_it(6)
"""
)


def write(folder: Path, text: str, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(text)


def run(folder: Path, processes: int) -> tuple[str, list[tuple[str, str]]]:
    """What pytest printed, and the file and the process of each test that ran to its end."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    ran = folder / "ran"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            f"-n{processes}",
            "-p",
            "tests.support.schedule",
            "--import-mode=importlib",
        ],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "RAN": str(ran), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    lines = [line.split() for line in ran.read_text().splitlines()]
    return done.stdout + done.stderr, [(file, process) for file, process in lines]


def test_files_and_groups_stay_whole(tmp_path: Path) -> None:
    write(tmp_path, TEST, "test_a.py", "test_b.py")
    write(tmp_path / "tests/integration/storage", TEST, "test_c.py", "test_d.py")
    printed, ran = run(tmp_path, 3)
    assert "24 passed" in printed, printed
    by_file = defaultdict(set)
    for file, process in ran:
        by_file[file].add(process)
    assert len(by_file["test_a.py"]) == len(by_file["test_b.py"]) == 1
    assert by_file["test_c.py"] == by_file["test_d.py"] and len(by_file["test_c.py"]) == 1
    assert len(set.union(*by_file.values())) > 1


def test_a_dead_process_costs_one_test(tmp_path: Path) -> None:
    write(tmp_path, TEST, "test_a.py", "test_b.py")
    write(tmp_path, FATAL, "test_c.py", "test_d.py")
    printed, ran = run(tmp_path, 2)
    assert "2 failed, 26 passed" in printed, printed
    assert Counter(file for file, _ in ran) == {
        "test_a.py": 6,
        "test_b.py": 6,
        "test_c.py": 7,
        "test_d.py": 7,
    }
