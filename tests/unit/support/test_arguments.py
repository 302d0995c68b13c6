"""What `./run test` makes of its arguments."""

import pytest

from tests.__main__ import arguments

PLUGIN = ["-p", "tests.support.resume"]
TWO = ["-n", "2", "--dist", "loadgroup"]


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ([], [*PLUGIN, *TWO, "-m", "not slow"]),
        (["--all"], [*PLUGIN, *TWO]),
        (["-n0", "-k", "x"], [*PLUGIN, "-m", "not slow", "-n0", "-k", "x"]),
        (["--numprocesses=4"], [*PLUGIN, "-m", "not slow", "--numprocesses=4"]),
        (["-m", "portable", "-x"], [*PLUGIN, *TWO, "-m", "(portable) and not slow", "-x"]),
        (["-m", "portable", "--all"], [*PLUGIN, *TWO, "-m", "portable"]),
    ],
)
def test_arguments(given: list[str], made: list[str]) -> None:
    assert arguments(given) == made
