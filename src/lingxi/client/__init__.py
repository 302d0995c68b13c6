"""The Python client: submit, watch, cancel, retry; albums, photos and share links.

`Client` is asynchronous; `SyncClient` is for scripts.
"""

from lingxi.client.album_model import (
    Album,
    AlbumSnapshot,
    Photo,
    PhotoChanged,
    PhotoRemoved,
    ShareLink,
    Uploaded,
    Variant,
)
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
    "Album",
    "AlbumSnapshot",
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
    "Photo",
    "PhotoChanged",
    "PhotoRemoved",
    "Progress",
    "Reconnecting",
    "Reset",
    "ShareLink",
    "Snapshot",
    "StreamBroken",
    "SyncClient",
    "Task",
    "TaskState",
    "Unreachable",
    "Uploaded",
    "Variant",
]
