"""The command line, `lingxi`. See `lingxi --help`; exit codes are in `lingxi.cli.exits`."""

import sys

_INTERRUPTED = 130


def main() -> None:
    """The entry point of the installed command."""
    try:
        from lingxi.cli.app import run

        status = run(sys.argv[1:])
    except KeyboardInterrupt:  # before the command line was read
        status = _INTERRUPTED
    sys.exit(status)
