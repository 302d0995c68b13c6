"""Cases of uploads that users met elsewhere, and that no other test tries as their words say (docs/cases.md)."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.integration.uploads.stage import Stage, jpeg, outcomes


async def test_twenty_uploads_of_the_same_bytes_and_batches_that_share_some(stage: Stage) -> None:
    """C81. One photo and one object of each; what is the same spoils nothing else of its batch."""
    batch = [("a.jpg", jpeg(1)), ("b.jpg", jpeg(1)), *((f"{n}.jpg", jpeg(n)) for n in range(2, 10))]
    answers = await asyncio.gather(
        *(stage.post(("same.jpg", jpeg(1))) for _ in range(20)), *(stage.post(*batch) for _ in range(3))
    )
    assert {answer.status_code for answer in answers} <= {200, 201}
    told = Counter(outcome for answer in answers for outcome, _ in outcomes(answer))
    assert told == {"created": 9, "exists": 20 + 30 - 9}
    photos = await stage.photos()
    assert len(photos) == 9
    assert stage.stored() == sorted(photo["storage_key"] for photo in photos)
