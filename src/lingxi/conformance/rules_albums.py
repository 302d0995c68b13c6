"""The feed of an album: the stream's own rules, without an end, and for two audiences."""

import asyncio
import random
from functools import partial
from itertools import pairwise
from uuid import uuid4

from lingxi.conformance.album import Album, Guest
from lingxi.conformance.album_model import AlbumModel
from lingxi.conformance.connection import StreamConnection
from lingxi.conformance.rule import Bench, Check, Rule
from lingxi.conformance.sse import Frame

TOLD_SECONDS = 20  # a change is told within one; the rest is for the machine
REVOKED_SECONDS = 40  # the product's 30, and some for the machine
_PRIVATE = ("fileName", "error", "sha256")
_GARBAGE = ("x", "-1", "007", "1.5", "9" * 30, "null")


async def opens_with_the_album(bench: Bench, check: Check) -> None:
    album = await Album.create(bench)
    await album.publish(1)
    guest = await album.share()
    for who in (None, guest):
        async with await album.events(guest=who) as stream:
            check(stream.is_stream, f"the feed is answered {stream.status}")
            check(
                "no-transform" in stream.headers.get("cache-control", ""), "Cache-Control lacks no-transform"
            )
            check.equal(stream.headers.get("x-accel-buffering"), "no", "X-Accel-Buffering")
            first = await _next(stream)
            check(stream.parser.retry_milliseconds is not None, "no `retry:` was told")
        if check(first.event == "snapshot", f"the first frame is {first.event!r}"):
            asked = await album.asked(who)
            check.equal(first.id, str(asked["cursor"]), "the snapshot's id")
            check.equal(first.data, asked, "the snapshot")


async def ids_are_dense(bench: Bench, check: Check) -> None:
    """Change after change, each waited for: every number comes, once, in order."""
    album = await Album.create(bench)
    one, other = await album.publish(2)
    async with await album.events() as stream:
        number = (await _next(stream)).number
        for photo, verb in (
            (one, "hide"),
            (other, "hide"),
            (one, "show"),
            (other, "recall"),
            (one, "delete"),
        ):
            await album.steer(photo, verb)
            frame = await _next(stream)
            check.equal((frame.number, frame.data["id"]), (number + 1, photo), f"the frame after {verb}")
            number = frame.number
        await album.rename()
        check.equal((await _next(stream)).number, number + 1, "the id of a new name")
        check.equal((await album.asked())["cursor"], number + 1, "the album's own number")


async def resumes_at_every_id(bench: Bench, check: Check) -> None:
    """What was known at each id, with what comes after it, is what is listed; for members and for guests."""
    album = await Album.create(bench)
    guest = await album.share()
    for who in (None, guest):
        model, known = AlbumModel(), {}
        async with await album.events("0", guest=who) as stream:
            for verb in ("hide", "show", "recall", "delete"):
                (photo,) = await album.publish(1)
                await album.steer(photo, verb)
            last = (await album.rename())["cursor"]
            while last not in known:
                frame = await _next(stream)
                model.apply(frame)
                if frame.id is not None:
                    known[frame.number] = model.copy()
        for number, remembered in known.items():
            numbers = await album.catch_up(str(number), remembered, who)
            check(all(n > number for n in numbers), f"after {number} come the ids {numbers[:5]}")
            await _same(album, check, remembered, f"resumed at {number}", who)


async def zero_replays(bench: Bench, check: Check) -> None:
    album = await Album.create(bench)
    photos = await album.publish(3)
    await album.steer(photos[0], "recall")
    for last_event_id, query_id in (("0", None), (None, "0"), ("0", "999")):
        model = AlbumModel()
        async with await album.events(last_event_id, query_id=query_id) as stream:
            numbers = await album.read_up(stream, model, TOLD_SECONDS)
        check.equal(model.resets, 0, "the number of resets after 0")
        check(all(a < b for a, b in pairwise(numbers)), f"ids do not ascend: {numbers[:20]}")
        check(photos[0] in model.removed, "a recalled photo is not told as removed")
        await _same(album, check, model, "after 0")


async def wrong_ids_are_reset(bench: Bench, check: Check) -> None:
    album = await Album.create(bench)
    await album.publish(2)
    future = str((await album.asked())["cursor"] + 1_000_000)
    for given in (*_GARBAGE, future):
        async with await album.events(given) as stream:
            first, second = await _next(stream), await _next(stream)
            events = [first.event, second.event]
            check.equal(events, ["reset", "snapshot"], f"the first frames after the id {given[:20]!r}")
            check.equal((first.id, second.id), ("0", None), "the ids of reset and snapshot")
            model = AlbumModel()
            await album.read_up(stream, model, TOLD_SECONDS)
        await _same(album, check, model, f"after the id {given[:20]!r}")


async def removed_for_all(bench: Bench, check: Check) -> None:
    """Hidden, recalled, deleted: gone for guests at once; a photo that is shown again comes back."""
    album = await Album.create(bench)
    photos = await album.publish(3)
    guest = await album.share()
    async with await album.events() as member, await album.events("0", guest=guest) as shared:
        for photo, verb in zip(photos, ("hide", "recall", "delete"), strict=True):
            await album.steer(photo, verb)
            for stream in (member, shared):
                told = await stream.until(partial(_is, event="removed", photo_id=photo), TOLD_SECONDS)
                check(told.id is not None, "a `removed` frame carries no id")
    async with await album.events(guest=guest) as stream:
        await album.steer(photos[0], "show")
        frame = await stream.until(lambda frame: _is(frame, "photo", photos[0]), TOLD_SECONDS)
        check.equal(frame.data["visibility"], "published", "the visibility of a photo that is shown again")


async def renamed(bench: Bench, check: Check) -> None:
    """A change of the album alone has a number, and is told to who watches and to who resumes from before it."""
    album = await Album.create(bench)
    await album.publish(1)
    before = (await album.asked())["cursor"]
    async with await album.events() as stream:
        await _next(stream)
        name = (await album.rename())["name"]
        frame = await stream.until(lambda frame: frame.event == "snapshot", TOLD_SECONDS)
        check.equal((frame.data["name"], frame.number), (name, before + 1), "the name and its number")
    async with await album.events(str(before)) as stream:
        frame = await _next(stream)
        check.equal((frame.event, frame.data.get("name")), ("snapshot", name), "what comes after a resume")


async def guests_see_what_is_published(bench: Bench, check: Check) -> None:
    album, other = await Album.create(bench), await Album.create(bench)
    guest = await album.share()
    shown = await album.publish(1)
    async with await album.events("0", guest=guest) as stream:
        uploaded = await album.upload(1)
        await album.steer(
            uploaded[0], "delete"
        )  # before or after it was published: never told as a photo that lacks pictures
        shown += await album.publish(1)
        model = AlbumModel()
        await album.read_up(stream, model, TOLD_SECONDS)
    check.equal(sorted(model.photos), sorted(shown), "the photos that a guest was told of")
    for photo in model.photos.values():
        check.equal(photo["visibility"], "published", "the visibility of a guest's photo")
        told = [name for name in _PRIVATE if photo.get(name) is not None]
        check(not told, f"a guest is told {', '.join(told)}")
    await _same(album, check, model, "a guest", guest)
    strange = []
    for album_id in (other.id, str(uuid4())):
        async with await Album(bench.server, album_id).events(guest=guest) as stream:
            strange.append((stream.status, stream.body))
    check.equal(strange[0][0], 404, "the status of another album's feed with this share link")
    check(
        strange[0] == strange[1], "an album that is not shared answers otherwise than one that is not there"
    )


async def never_published_is_never_told(bench: Bench, check: Check) -> None:
    """Numbers that a guest may not see: it is told nothing of them, and goes on."""
    album = await Album.create(bench)
    guest = await album.share()
    async with await album.events(guest=guest) as stream:
        await _next(stream)
        photo = await album.upload_damaged()
        await album.steer(photo, "hide")
        (other,) = await album.publish(1)
        model = AlbumModel()
        numbers = await album.read_up(stream, model, TOLD_SECONDS)
    check.equal((list(model.photos), model.removed), ([other], set()), "what a guest knows of the photos")
    check.equal(numbers[-1], (await album.asked())["cursor"], "the last id")
    members = AlbumModel()
    async with await album.events("0") as stream:
        await album.read_up(stream, members, TOLD_SECONDS)
    check(photo in members.photos, "a member is not told of a photo that could not be processed")


async def cuts_lose_nothing(bench: Bench, check: Check) -> None:
    """Viewers that lose their connection after a few frames, again and again, while photos come and go."""
    album = await Album.create(bench)
    guest = await album.share()
    over = asyncio.Event()

    async def work() -> None:
        rng = random.Random(3)
        photos = await album.publish(3)
        for verb in ("hide", "show", "hide", "recall", "show", "delete"):
            photos += await album.upload(1)
            photo = rng.choice(photos[:3])
            if (await _visible(album, photo)) or verb == "show":
                await album.steer(photo, verb)
                if verb in ("recall", "delete"):
                    photos.remove(photo)
        await album.published(photos)
        over.set()

    async def viewer(seed: int) -> tuple[AlbumModel, str]:
        rng, model, last_id = random.Random(seed), AlbumModel(), "0"
        who = guest if seed % 2 else None
        while not over.is_set():
            async with await album.events(last_id, guest=who) as stream:
                for _ in range(rng.choice((1, 1, 2, 3, 8))):
                    try:
                        frame = await stream.next(0.5)
                    except TimeoutError:
                        break
                    if frame is not None:
                        model.apply(frame)
                last_id = stream.last_id or last_id
        return model, last_id

    watching = asyncio.gather(*(viewer(seed) for seed in range(4)))
    await asyncio.gather(work(), watching)
    await album.publish(2)  # while nobody is connected: what a resume may not skip
    for seed, (model, last_id) in enumerate(watching.result()):
        who = guest if seed % 2 else None
        await album.catch_up(last_id, model, who)
        check.equal(model.resets, 0, "the number of resets")
        await _same(album, check, model, f"viewer {seed}", who)


async def _visible(album: Album, photo: str) -> bool:
    return photo in {one["id"] for one in await album.listed() if one["visibility"] == "published"}


async def revoked_ends(bench: Bench, check: Check) -> None:
    """A share link that is revoked ends its open feeds, and opens none; another link and members go on."""
    album = await Album.create(bench)
    guest, other = await album.share(), await album.share()
    async with (
        await album.events(guest=guest) as ended,
        await album.events(guest=other) as kept,
        await album.events() as member,
    ):
        for stream in (ended, kept, member):
            await _next(stream)
        await album.revoke(guest)
        try:
            check(await ended.next(REVOKED_SECONDS) is None, "the feed of a revoked link goes on")
        except TimeoutError:
            check(False, f"the feed of a revoked link is open {REVOKED_SECONDS} s later")
        async with await album.events(guest=guest) as stream:
            check(stream.status in (401, 404), f"a revoked link is answered {stream.status}")
        name = (await album.rename())["name"]
        for stream, who in ((kept, "another link"), (member, "a member")):
            frame = await _next(stream)
            check.equal(frame.data.get("name"), name, f"what {who} is told afterwards")


async def deleted_ends(bench: Bench, check: Check) -> None:
    album = await Album.create(bench)
    guest = await album.share()
    async with await album.events() as member, await album.events(guest=guest) as shared:
        for stream in (member, shared):
            await _next(stream)
        await album.delete()
        for stream in (member, shared):
            try:
                check(await stream.next(TOLD_SECONDS) is None, "the feed of a deleted album goes on")
            except TimeoutError:
                check(False, f"the feed of a deleted album is open {TOLD_SECONDS} s later")
    async with await album.events() as stream:
        check.equal(stream.status, 404, "the status of a deleted album's feed")


async def access(bench: Bench, check: Check) -> None:
    """No token, a wrong one, and stream tokens, which open the feed of one album."""
    album, other = await Album.create(bench), await Album.create(bench)
    for headers in ({}, {"Authorization": "Bearer lx_wrong"}):
        async with await album.events(headers=headers) as stream:
            check.equal(stream.status, 401, "the status without a good token")
    token = (await album.call("POST", "/stream-token"))["token"]
    async with await album.events(headers={}, token=token) as stream:
        check(stream.is_stream, f"a stream token is answered {stream.status}")
    async with await other.events(headers={}, token=token) as stream:
        check(stream.status in (401, 404), f"another album's stream token is answered {stream.status}")


async def _next(stream: StreamConnection) -> Frame:
    frame = await stream.next(TOLD_SECONDS)
    if frame is None:
        raise ValueError("the feed ended by itself")
    return frame


def _is(frame: Frame, event: str, photo_id: str) -> bool:
    return frame.event == event and frame.data["id"] == photo_id


async def _same(album: Album, check: Check, model: AlbumModel, when: str, who: Guest | None = None) -> None:
    differences = model.differences(await album.listed(who))
    check(not differences, f"{when}: " + "; ".join(differences[:3]))


RULES = (
    Rule("album-snapshot", "An album's feed opens with the album as it is asked for", opens_with_the_album),
    Rule("album-dense", "Every change of an album takes the next number", ids_are_dense),
    Rule("album-every-id", "Resuming at every id ends with what is listed", resumes_at_every_id),
    Rule("album-zero", "Id 0 replays every photo, removed ones too", zero_replays),
    Rule("album-reset", "Garbage and ids from the future: reset, snapshot, every photo", wrong_ids_are_reset),
    Rule("album-removed", "Hidden, recalled and deleted photos are told as removed", removed_for_all),
    Rule("album-renamed", "A new name has a number and is told", renamed),
    Rule(
        "album-guests", "A share link sees what is published in its album alone", guests_see_what_is_published
    ),
    Rule(
        "album-unseen",
        "Photos that never were published are not told to guests",
        never_published_is_never_told,
    ),
    Rule("album-cuts", "Connections lost again and again while photos come and go", cuts_lose_nothing),
    Rule("album-revoked", "A revoked share link ends its feeds, and no other", revoked_ends, slow=True),
    Rule("album-deleted", "A deleted album ends its feeds", deleted_ends),
    Rule("album-access", "401 without a token; a stream token opens one album", access),
)
