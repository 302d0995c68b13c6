"""What a worker and the child of a sync processor say to each other: JSON messages over a SEQPACKET socket."""

from typing import Final

MESSAGE_BYTES: Final = 160 * 1024  # a result of 64 kB as a JSON text within JSON, and what is around it
