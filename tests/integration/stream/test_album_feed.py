"""The feed of an album: whoever watches, with whatever id, ends with what the database holds for such a viewer."""

from __future__ import annotations

from tests.integration.stream.albums import Gallery
from tests.integration.stream.stage import Stage


async def test_members_see_each_step_and_guests_what_is_published(stage: Stage) -> None:
    gallery = await Gallery.open(stage)
    member, guest = await gallery.watch(), await gallery.watch(shared=True)
    await guest.until(lambda v: v.frames)
    photo = await gallery.upload()
    await member.until(lambda v: v.last_id == "2")
    await gallery.publish(photo)
    await guest.until(lambda v: len(v.model.photos) == 1)
    await member.until(lambda v: v.last_id == "3")
    assert member.events == ["snapshot", "photo", "photo"] and member.numbers == [1, 2, 3]
    assert guest.events == ["snapshot", "photo"] and guest.numbers == [1, 3]
    assert [f.data["processingState"] for f in member.frames[1:]] == ["uploaded", "ready"]
    assert not {"fileName", "error", "sizeBytes"} & guest.frames[1].data.keys()
    assert await gallery.differences(member) == await gallery.differences(guest) == []
