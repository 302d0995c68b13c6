"""The command line, `lingxi`. See `lingxi --help`; exit codes are in `lingxi.cli.exits`."""

import sys


def main() -> None:
    """The entry point of the installed command."""
    from lingxi.cli.app import run

    sys.exit(run(sys.argv[1:]))
