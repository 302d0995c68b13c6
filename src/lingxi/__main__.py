"""`python -m lingxi` is `lingxi`."""

from lingxi.cli import main

main()
