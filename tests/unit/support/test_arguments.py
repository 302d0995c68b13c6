"""What `./run test` makes of its arguments."""

import pytest

from tests.__main__ import arguments

PLUGIN = ["-p", "tests.support.resume", "-p", "tests.support.schedule"]
FOUR = ["-n", "4"]


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ([], [*PLUGIN, *FOUR, "-m", "not slow"]),
        (["--all"], [*PLUGIN, *FOUR]),
        (["-n0", "-k", "x"], [*PLUGIN, "-m", "not slow", "-n0", "-k", "x"]),
        (["--numprocesses=4"], [*PLUGIN, "-m", "not slow", "--numprocesses=4"]),
        (["-m", "portable", "-x"], [*PLUGIN, *FOUR, "-m", "(portable) and not slow", "-x"]),
        (["-m", "portable", "--all"], [*PLUGIN, *FOUR, "-m", "portable"]),
    ],
)
def test_arguments(given: list[str], made: list[str]) -> None:
    assert arguments(given) == made
