"""What a worker and the child of a sync processor say to each other: JSON messages over a SEQPACKET socket."""

import json
from typing import Any, Final

MESSAGE_BYTES: Final = 160 * 1024  # a result of 64 kB as a JSON text within JSON, and what is around it


def encoded(said: dict[str, Any]) -> bytes:
    """As `json.loads` reads it. In UTF-8, not escaped: a result in Greek would be three times as long."""
    return json.dumps(said, ensure_ascii=False).encode("utf-8", "surrogatepass")
