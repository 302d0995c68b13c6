"""docs/processors/writing-your-own.md, order.md and in-another-language.md: what they tell to do is done, word for word."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lingxi.processors.contract import Processor
from lingxi.processors.finding import whats_wrong
from tests.e2e.conftest import Up, start_up
from tests.support.processes import Processes, environment
from tests.support.programs import need_program
from tests.support.servers import ROOT, Servers

PAGES = ROOT / "docs" / "processors"


def blocks(page: str, language: str) -> list[str]:
    text = (PAGES / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's folder, with `lingxi` and `python` on the PATH."""
    made = tmp_path_factory.mktemp("reader")
    (made / "bin").mkdir()
    for name, arguments in (("lingxi", "-m lingxi "), ("python", "")):
        program = made / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {arguments}"$@"\n')
        program.chmod(0o755)
    return made


def run_script(folder: Path, script: str, **env: str) -> str:
    """Run as a reader's shell would; what it wrote."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-eu"],
        input=script,
        cwd=folder,
        env={**environment(**env), "PATH": path},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def begun(folder: Path, servers: Servers) -> str:
    """The first step: two files, and their test passes. What was said."""
    return run_script(folder, blocks("writing-your-own.md", "sh")[0], DATABASE_URL=servers.database_url)


@pytest.fixture(scope="module")
def up(folder: Path, begun: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """The second step: it is served, and so is one that no worker of ours runs."""
    (folder / "studio_crop.py").write_text(blocks("in-another-language.md", "python")[0])
    logs = tmp_path_factory.mktemp("up")
    processes = Processes(logs)
    settings = {
        "PYTHONPATH": f"{ROOT / 'src'}:{folder}",
        "LINGXI_PROCESSORS": "studio_number_lines,studio_crop",
    }
    try:
        started = start_up(processes, logs / "data", **settings, GRACE_SECONDS="3")
        yield started
        assert started.process.stop() == 0
        processes.assert_clean_logs()
    finally:
        processes.close()


def test_the_first_step_writes_a_test_that_passes(folder: Path, begun: str) -> None:
    assert "7 passed" in begun
    again = subprocess.run(
        [sys.executable, "-m", "lingxi", "new-processor", "studio:number-lines"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert (again.returncode, "studio_number_lines.py exists" in again.stderr) == (6, True)


def test_the_second_step_serves_it(folder: Path, up: Up) -> None:
    need_program("curl", "to run the page's examples")
    env = {"PYTHONPATH": f"{ROOT / 'src'}:{folder}", "LINGXI_PROCESSORS": "studio_number_lines"}
    said = run_script(folder, blocks("writing-your-own.md", "sh")[1], **up.env, **env)
    assert re.search(
        r"^studio:number-lines +studio +studio-number-lines +studio_number_lines +object, into$", said, re.M
    )
    assert "succeeded: 1 of 1 done" in said
    assert said.endswith("1: so much depends\n2: upon\n")


def test_the_other_steps_are_python_that_works(folder: Path, servers: Servers) -> None:
    for text in blocks("writing-your-own.md", "python"):
        named = re.match(r"# (\w+\.py)\n", text)
        assert named, text[:60]
        (folder / named[1]).write_text(text)
    said = run_script(folder, "python -m pytest -q test_studio.py", DATABASE_URL=servers.database_url)
    assert "1 passed" in said


def test_caps_are_set_as_the_page_says(folder: Path, up: Up) -> None:
    said = run_script(folder, blocks("order.md", "sh")[0], **up.env)
    assert "default: at most 20 items at once" in said
    assert re.search(r"default +0 +20$", said, re.MULTILINE)
    assert said.endswith("default: no cap\n")


def test_a_type_that_others_serve_is_declared_as_the_page_says() -> None:
    names: dict[str, object] = {}
    exec(blocks("in-another-language.md", "python")[0], names)
    crop = names["CROP"]
    assert isinstance(crop, Processor)
    assert whats_wrong(crop) is None


@pytest.mark.parametrize(
    ("module", "text", "why"),
    [
        ("broken", "import nowhere", "LINGXI_PROCESSORS broken cannot be imported"),
        (
            "twice",
            "from lingxi.processors.demo_drill import DRILL\nAGAIN = DRILL",
            "the name demo:drill is one of Lingxi's own",
        ),
    ],
)
def test_what_cannot_be_served_stops_a_worker_with_one_sentence(
    tmp_path: Path, module: str, text: str, why: str
) -> None:
    (tmp_path / f"{module}.py").write_text(text)
    settings = {"PYTHONPATH": f"{ROOT / 'src'}:{tmp_path}", "LINGXI_PROCESSORS": module}
    settings |= {"DATABASE_URL": "postgresql://nobody@127.0.0.1:9/x", "REDIS_URL": "redis://127.0.0.1:9"}
    ran = subprocess.run(
        [sys.executable, "-m", "lingxi", "worker"],
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode not in (0, 1)
    assert "Traceback" not in ran.stderr
    assert why in ran.stderr.splitlines()[-1]
