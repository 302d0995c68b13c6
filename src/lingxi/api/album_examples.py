"""Examples of albums for the OpenAPI document."""

from typing import Any

from lingxi.api.examples import TASK_ID, task

ALBUM_ID = "5c7b7c1e-8f0e-4c0b-9a3c-2f6d1b9e4a01"
PHOTO_ID = "b1c0a7d2-3a55-4a51-8f2e-7d9c6b5a4f02"
_CREATED = "2026-12-01T20:00:00.000000Z"

ALBUM: dict[str, Any] = {
    "id": ALBUM_ID,
    "name": "Wedding of Lin and Ada",
    "originalsShared": False,
    "createdAt": _CREATED,
    "cursor": 57,
    "counts": {"photos": 27, "published": 25, "failed": 1, "processing": 1},
}


def _variant(kind: str, width: int, height: int, size: int, digest: str) -> dict[str, Any]:
    name = f"1-{kind}-{digest}.jpg"
    return {
        "kind": kind,
        "width": width,
        "height": height,
        "bytes": size,
        "contentType": "image/jpeg",
        "url": f"/api/v1/albums/{ALBUM_ID}/photos/{PHOTO_ID}/variants/{name}",
    }


PHOTO: dict[str, Any] = {
    "id": PHOTO_ID,
    "albumId": ALBUM_ID,
    "uploadNumber": 12,
    "processingState": "ready",
    "visibility": "published",
    "entityVersion": 1,
    "generation": 1,
    "width": 6000,
    "height": 4000,
    "capturedAt": "2026-12-01T18:42:10.000000Z",
    "publishedAt": "2026-12-01T20:00:01.400000Z",
    "createdAt": _CREATED,
    "variants": [
        _variant("thumb", 400, 267, 21_480, "9f86d081884c7d65"),
        _variant("browse", 2048, 1365, 482_113, "2c26b46b68ffc68f"),
    ],
    "fileName": "IMG_0012.jpg",
    "sizeBytes": 8_412_330,
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "contentType": "image/jpeg",
    "error": None,
}
HIDDEN = {
    **PHOTO,
    "visibility": "hidden",
    "entityVersion": 2,
    "variants": [{**v, "url": v["url"].replace("variants", "previews")} for v in PHOTO["variants"]],
}
RECALLED = {**PHOTO, "visibility": "recalled", "entityVersion": 2, "variants": []}
TIMELINE = {
    "photoId": PHOTO_ID,
    "stages": [
        {"stage": "received", "at": _CREATED, "ms": None},
        {"stage": "stored", "at": "2026-12-01T20:00:00.820000Z", "ms": 820.0},
        {"stage": "enqueued", "at": "2026-12-01T20:00:00.845000Z", "ms": 25.0},
    ],
    "totalMs": 845.0,
}
STATS = {
    "albumId": ALBUM_ID,
    "stages": [{"stage": "stored", "count": 25, "p50Ms": 812.4, "p95Ms": 1911.0, "maxMs": 2230.9}],
}
REPROCESS = {
    "tasks": [
        {**task("queued", 1, started=False, finished=False, queued=2), "id": TASK_ID, "type": "photo:process",
         "priority": "bulk", "metadata": {"albumId": ALBUM_ID}}
    ]
}  # fmt: skip
FINGERPRINT = {
    "tasks": [{**REPROCESS["tasks"][0], "type": "photo:fingerprint"}],
}
DUPLICATES = {
    "groups": [
        {
            "kind": "duplicate",
            "count": 2,
            "photos": [
                {"photo": PHOTO, "sharpness": 483.06, "thumbHash": "1QcSHQRnh493V4dIh4eXh1h4kJUI"},
                {
                    "photo": {**PHOTO, "id": "d0e5c1f4-92a1-4f0e-8a57-1d2c3b4a5f03", "uploadNumber": 19},
                    "sharpness": 402.11,
                    "thumbHash": "1QcSHQRnh493V4dIh4eXh1h4kJUI",
                },
            ],
        }
    ],
    "photos": 27,
    "fingerprinted": 25,
    "nextCursor": None,
}
SHARE: dict[str, Any] = {
    "id": "7f0f3c52-6a0b-4d8e-8b71-0f2f9a6f5b03",
    "albumId": ALBUM_ID,
    "createdAt": _CREATED,
    "expiresAt": None,
    "revokedAt": None,
}
CREATED_SHARE = {**SHARE, "secret": "A" * 43, "url": "/s/" + "A" * 43}
UPLOADED_FILES: dict[str, Any] = {
    "files": [
        {"fileName": PHOTO["fileName"], "status": "created", "photo": PHOTO},
        {
            "fileName": "DSC_0002.NEF",
            "status": "refused",
            "error": {
                "code": "unsupported_type",
                "message": "The file is a camera's RAW file; export it as JPEG (Nikon).",
            },
        },
    ]
}
