"""What parent and child say to each other over a SEQPACKET socket, one message at a time; all else is JSON."""

from typing import Final

READY: Final = b"ready"
TAKEN: Final = b"taken"  # from here on a death is this work's
GO: Final = b"go"
MESSAGE_BYTES: Final = 1 << 16
