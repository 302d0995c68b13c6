"""What `./run test` makes of its arguments."""

import pytest

from tests.__main__ import arguments

PLUGIN = ["-p", "tests.support.resume", "-p", "tests.support.schedule"]
THREE = ["-n", "3"]


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ([], [*PLUGIN, *THREE, "-m", "not slow"]),
        (["--all"], [*PLUGIN, *THREE]),
        (["-n0", "-k", "x"], [*PLUGIN, "-m", "not slow", "-n0", "-k", "x"]),
        (["--numprocesses=4"], [*PLUGIN, "-m", "not slow", "--numprocesses=4"]),
        (["-m", "portable", "-x"], [*PLUGIN, *THREE, "-m", "(portable) and not slow", "-x"]),
        (["-m", "portable", "--all"], [*PLUGIN, *THREE, "-m", "portable"]),
    ],
)
def test_arguments(given: list[str], made: list[str]) -> None:
    assert arguments(given) == made
