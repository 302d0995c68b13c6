"""A file's tests stay on one test process, and so do those of a folder that shares more."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.support.schedule import WHOLE_FOLDERS
from tests.support.servers import ROOT

TEST = """
import os, pathlib, pytest

@pytest.mark.parametrize("number", range(6))
def test_it(number):
    with open(os.environ["RAN"], "a") as ran:
        print(pathlib.Path(__file__).name, os.environ["PYTEST_XDIST_WORKER"], file=ran)
"""


def test_files_and_folders_stay_whole(tmp_path: Path) -> None:
    shared = tmp_path / WHOLE_FOLDERS[0]
    shared.mkdir(parents=True)
    for file in ("test_a.py", "test_b.py"):
        (tmp_path / file).write_text(TEST)
    for file in ("test_c.py", "test_d.py"):
        (shared / file).write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    ran = tmp_path / "ran"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "3",
            "-p",
            "tests.support.schedule",
            "--import-mode=importlib",
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "RAN": str(ran), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "24 passed" in done.stdout, done.stdout + done.stderr
    by_file = defaultdict(set)
    for line in ran.read_text().splitlines():
        file, process = line.split()
        by_file[file].add(process)
    assert len(by_file["test_a.py"]) == len(by_file["test_b.py"]) == 1
    assert by_file["test_c.py"] == by_file["test_d.py"] and len(by_file["test_c.py"]) == 1
    assert len(set.union(*by_file.values())) > 1
