"""`./run test`: pytest with this project's defaults; every argument that it does not know goes to pytest.

Three processes unless told otherwise (`-n`): they keep two cores busy, and a fourth only makes the others wait.
Without the tests marked `slow` unless asked for all (`--all`).
"""

from __future__ import annotations

import sys

import pytest


def arguments(given: list[str]) -> list[str]:
    """pytest's arguments for ours."""
    passed_on = [argument for argument in given if argument != "--all"]
    defaults = ["-p", "tests.support.resume", "-p", "tests.support.schedule"]
    if not _has(passed_on, "-n", "--numprocesses"):
        defaults += ["-n", "3"]
    if passed_on != given:
        return [*defaults, *passed_on]
    if "-m" in passed_on:
        position = passed_on.index("-m") + 1
        passed_on[position:] = [f"({passed_on[position]}) and not slow", *passed_on[position + 1 :]]
        return [*defaults, *passed_on]
    return [*defaults, "-m", "not slow", *passed_on]


def _has(given: list[str], short: str, long: str) -> bool:
    """Is this option there, as `-n 4`, `-n4`, `--numprocesses=4`?"""
    return any(
        argument.split("=")[0] == long if argument.startswith("--") else argument.startswith(short)
        for argument in given
    )


def main(given: list[str]) -> int:
    """pytest's exit code; nothing left to run is a success when resuming."""
    code = int(pytest.main(arguments(given)))
    nothing_left = code == pytest.ExitCode.NO_TESTS_COLLECTED and "--resume" in given
    return 0 if nothing_left else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
