"""The house's rules, applied to the whole tree."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from scripts import rules
from tests.support.processes import environment

ROOT = rules.ROOT
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-build.lock")

LONG_MODULES: dict[str, int] = {
    "src/lingxi/settings.py": 560,  # most of it is one list: a setting, its description, its default
}
"""Modules that may be longer than the rest, each with a comment that says why."""

SLEEPERS = {
    "tests/integration/worker/test_attempts.py",  # a processor that blocks its event loop is what it is about
}
MAY_SKIP = {
    "tests/support/programs.py"
}  # for programs that a fresh machine need not have; fails where CI=true

ENVIRONMENT_READERS = {Path("src/lingxi/settings.py")}


def test_no_tracked_file_names_a_registry_or_a_machine() -> None:
    found = []
    for path in rules.tracked_files():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {finding}" for finding in rules.hosts_and_machine_paths(text)]
    assert found == []


def test_no_tracked_file_is_large() -> None:
    large = [p for p in rules.tracked_files() if p.stat().st_size > rules.MAX_FILE_BYTES]
    assert large == [], "make it by code instead"


@pytest.mark.parametrize("name", LOCKS)
def test_locks_hold_hashes_and_no_url(name: str) -> None:
    lock = (ROOT / name).read_text()
    assert rules.urls_in_lock(lock) == []
    assert rules.unhashed(lock) == []
    assert rules.pins(lock)


def test_the_locks_agree() -> None:
    runtime, dev = (rules.pins((ROOT / name).read_text()) for name in LOCKS[:2])
    assert {name: dev.get(name) for name in runtime} == runtime


def test_the_locks_hold_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    runtime, dev = (rules.pins((ROOT / name).read_text()) for name in LOCKS[:2])
    for wanted, lock in ((project["dependencies"], runtime), (project["optional-dependencies"]["dev"], dev)):
        for requirement in wanted:
            name, _, version = re.sub(r"\[.*\]", "", requirement).partition("==")
            assert name in lock, f"{name} is not locked: see CONTRIBUTING.md"
            assert version in ("", lock[name])
    pinned = {
        requirement.partition("==")[0] for requirement in project["dependencies"] if "==" in requirement
    }
    assert {"bullmq", "redis"} <= pinned, "their behaviour was measured at exactly these versions"


def test_modules_are_short() -> None:
    assert rules.too_long(rules.python_files("src", "scripts", "benchmarks"), LONG_MODULES) == []
    tests = rules.python_files("tests")
    assert rules.too_long(tests, LONG_MODULES, limit=rules.MAX_TEST_MODULE_LINES) == []


def test_only_settings_reads_the_environment() -> None:
    sources = rules.python_files("src")
    readers = {path for path, text in sources.items() if rules.environment_reads(text)}
    assert readers <= ENVIRONMENT_READERS


def test_redis_keys_are_spelled_in_one_place() -> None:
    sources = rules.python_files("src")
    found = {
        str(path): literals
        for path, text in sources.items()
        if (literals := rules.literals_with(text, r"^lingxi:[a-z]")) and path.name != "names.py"
    }
    assert found == {}


def test_every_statement_is_used() -> None:
    queries = ROOT / "src/lingxi/db/queries"
    names = [str(path.relative_to(queries).with_suffix("")) for path in queries.rglob("*.sql")]
    assert names
    assert rules.unused_statements(names, rules.python_files("src").values()) == []


def test_tests_wait_for_facts() -> None:
    tests = {path: text for path, text in rules.python_files("tests").items() if path.parts[1] != "support"}
    found = {str(path) for path, text in tests.items() if rules.calls_of(text, "time", "sleep")}
    assert found == SLEEPERS, "use tests.support.waiting"


def test_no_test_is_switched_off() -> None:
    files = rules.python_files("tests")
    assert {str(path) for path, text in files.items() if rules.loosened_tests(text)} == MAY_SKIP


def test_env_example_is_what_the_settings_say() -> None:
    command = [sys.executable, "-m", "lingxi.settings"]
    made = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    assert (ROOT / ".env.example").read_text() == made.stdout, (
        "make it anew: PYTHONPATH=src .venv/bin/python -m lingxi.settings > .env.example"
    )
