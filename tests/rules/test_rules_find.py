"""Each rule finds what it is for: a planted violation."""

from pathlib import Path

from scripts import rules


def test_registries_and_machine_paths_are_found() -> None:
    assert rules.hosts_and_machine_paths("see https://pypi." + "org/simple/x") != []
    assert rules.hosts_and_machine_paths("cd /wor" + "k/main") != []
    assert rules.hosts_and_machine_paths("a work/around in src/lingxi/worker/") == []


def test_urls_and_missing_hashes_in_locks_are_found() -> None:
    good = "a==1 \\\n    --hash=sha256:00\n    # via b\n"
    assert rules.urls_in_lock(good + "--index-url https://x\n") == ["--index-url https://x"]
    assert rules.unhashed(good) == []
    assert rules.unhashed(good + "b==2\n") == ["b==2"]
    assert rules.pins("a==1 ; python_version > '3' \\\n    --hash=sha256:00\nb-c==2.0.1 \\\n") == {
        "a": "1",
        "b-c": "2.0.1",
    }


def test_environment_reads_are_found() -> None:
    assert rules.environment_reads("import os\nos.environ['A']") == [2]
    assert rules.environment_reads("import os\nos.getenv('A')") == [2]
    assert rules.environment_reads("from os import environ") == [1]
    assert rules.environment_reads("import os\nos.getpid()") == []


def test_sleeps_are_found() -> None:
    assert rules.calls_of("import time\ntime.sleep(1)", "time", "sleep") == [2]
    assert rules.calls_of("from time import sleep\nsleep(1)", "time", "sleep") == [2]
    assert rules.calls_of("import asyncio\nasyncio.sleep(1)", "time", "sleep") == []


def test_literals_are_found_and_docstrings_are_not() -> None:
    assert rules.literals_with('"""lingxi:lock is a key."""\nkey = "lingxi:lock"\n', "^lingxi:") == [
        "lingxi:lock"
    ]


def test_unused_statements_are_found() -> None:
    assert rules.unused_statements(["items/claim", "items/old"], ['sql("items/claim")']) == ["items/old"]


def test_long_modules_and_stale_exceptions_are_found() -> None:
    files = {Path("a.py"): "\n" * 351, Path("b.py"): "\n"}
    assert rules.too_long(files, {}) == ["a.py: 351 lines, at most 350"]
    assert rules.too_long(files, {"a.py": 400, "b.py": 400}) == ["b.py: no exception needed"]


def test_tests_that_are_switched_off_are_found() -> None:
    planted = "import pytest\n@pytest.mark." + "skip\ndef test(): pytest." + "skip()\n"
    assert len(rules.loosened_tests(planted)) == 2
