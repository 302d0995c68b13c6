"""The Python client: submit, watch, cancel, retry. `Client` is asynchronous; `SyncClient` is for scripts."""

from lingxi.client.client import Client
from lingxi.client.errors import ApiError, ClientError, StreamBroken, Unreachable
from lingxi.client.frames import (
    Closing,
    End,
    Frame,
    ItemChanged,
    ItemProgress,
    Progress,
    Reconnecting,
    Reset,
    Snapshot,
    TaskState,
)
from lingxi.client.model import Counts, Item, ItemError, Page, Task
from lingxi.client.sync import SyncClient

__all__ = [
    "ApiError",
    "Client",
    "ClientError",
    "Closing",
    "Counts",
    "End",
    "Frame",
    "Item",
    "ItemChanged",
    "ItemError",
    "ItemProgress",
    "Page",
    "Progress",
    "Reconnecting",
    "Reset",
    "Snapshot",
    "StreamBroken",
    "SyncClient",
    "Task",
    "TaskState",
    "Unreachable",
]
