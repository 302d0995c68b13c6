"""`lingxi publish` and `lingxi album` against a running Lingxi, as processes."""

import json
import os
import signal
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import Up, last_json
from tests.support.jpeg import with_segments
from tests.support.pictures import cut, exif, heic_photo, jpeg_declaring, picture, png_declaring
from tests.support.processes import Process, Processes
from tests.support.proxy import CuttingProxy
from tests.support.waiting import wait_until_sync

LONG_SECONDS = 90.0


def photo(number: int, *, taken: str | None = None) -> bytes:
    """A small photo that no other number has."""
    data = picture("jpeg", 100 + number, 80)
    details = {36867: taken, 36881: "+00:00"} if taken else {}
    return with_segments(data, (0xE1, exif(ifd0={271: f"No. {number}"}, details=details)))


def folder_of(tmp_path: Path, files: dict[str, bytes]) -> Path:
    folder = tmp_path / "card"
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def published(up: Up, folder: Path, album: str, *, exit_code: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The outcomes by file name, and the summary."""
    run = up.run("publish", str(folder), "--album", album, "--json")
    assert run.returncode == exit_code, run.stderr
    *lines, summary = [json.loads(line) for line in run.stdout.splitlines()]
    return {Path(line["file"]).name: line for line in lines}, summary


def shown(up: Up, album: str) -> list[dict[str, Any]]:
    photos: list[dict[str, Any]] = last_json(up.run("album", "show", album, "--json").stdout)["photos"]
    return photos


def test_a_folder_is_published_and_what_is_not_is_explained(up: Up, tmp_path: Path) -> None:
    files = {
        "IMG_1.jpg": photo(1),
        "DCIM/100/Ünal é.jpg": photo(2),
        "IMG_3.JPG": photo(3),
        "IMG_3.CR2": b"raw",
        "IMG_4.NEF": b"raw",
        "cut.jpg": cut(picture("jpeg", 900, 600)),
        "text.jpg": b"no photo",
        "empty.jpg": b"",
        "drawing.svg": b'<svg xmlns="http://www.w3.org/2000/svg"/>',
        "notes.txt": b"notes",
        ".hidden.jpg": photo(9),
    }
    folder = folder_of(tmp_path, files)
    outcomes, summary = published(up, folder, "Wedding", exit_code=1)
    assert {name: one["status"] for name, one in outcomes.items()} == {
        "IMG_1.jpg": "published", "Ünal é.jpg": "published", "IMG_3.JPG": "published", "IMG_3.CR2": "skipped",
        "IMG_4.NEF": "refused", "cut.jpg": "failed", "text.jpg": "refused", "drawing.svg": "refused",
        "empty.jpg": "refused",
    }  # fmt: skip
    assert outcomes["cut.jpg"]["error"]["code"] == "truncated_image"
    assert "Copy it from the camera again" in outcomes["cut.jpg"]["error"]["message"]
    assert outcomes["text.jpg"]["error"]["code"] == "unsupported_type"
    assert outcomes["empty.jpg"]["error"]["code"] == "empty_file"
    assert (summary["published"], summary["refused"], summary["failed"], summary["skipped"]) == (3, 4, 1, 1)
    assert summary["albumUrl"] == f"{up.url}/albums/{summary['albumId']}"

    again, summary = published(up, folder, "Wedding", exit_code=1)
    assert again["IMG_1.jpg"]["status"] == "there"
    assert again["IMG_1.jpg"]["photoId"] == outcomes["IMG_1.jpg"]["photoId"]
    assert (summary["published"], summary["there"]) == (0, 3)
    photos = shown(up, "Wedding")
    assert len(photos) == 4
    assert "Ünal é.jpg" in {one["fileName"] for one in photos}
    told = up.run("publish", str(folder), "--album", summary["albumId"])
    assert "text.jpg: The file is of no accepted type" in told.stdout
    assert "drawing.svg: The file is an SVG drawing" in told.stdout
    assert "left alone, as no photos: 1 file (.txt)" in told.stdout
    assert told.stdout.splitlines()[-1].startswith(
        "9 of 9 done: 3 there already, 4 refused, 1 failed, 1 left out"
    )


def test_twenty_good_ones_and_five_hostile_ones_together(up: Up, tmp_path: Path) -> None:
    """Twenty are published, in the contract's order; five are explained; no worker was lost over them."""
    taken = {
        number: f"2024:06:01 {20 - number:02d}:00:00" for number in range(10)
    }  # the later, the earlier taken
    files = {f"{number:02d}.jpg": photo(number, taken=taken.get(number)) for number in range(18)}
    files |= {"18.png": picture("png", 300, 200), "19.heic": heic_photo(320, 240)}
    hostile = {
        "bomb.png": (png_declaring(100_000, 100_000), "too_many_pixels"),
        "scans.jpg": (jpeg_declaring(12_000, 10_000, progressive=True), "too_many_pixels"),
        "cut.jpg": (cut(picture("jpeg", 900, 600)), "truncated_image"),
        "script.gif": (b"GIF89a/*" + bytes(30) + b"*/=1;alert(1)", "corrupt_image"),
        "drawing.jpg": (
            b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>',
            "unsupported_type",
        ),
    }
    folder = folder_of(tmp_path, files | {name: data for name, (data, _) in hostile.items()})
    outcomes, summary = published(up, folder, "Together", exit_code=1)
    assert {name: one["error"]["code"] for name, one in outcomes.items() if one["error"]} == {
        name: code for name, (_, code) in hostile.items()
    }
    assert all(outcomes[name]["error"]["message"].endswith(".") for name in hostile)
    assert summary["published"] == 20
    photos = [one for one in shown(up, "Together") if one["visibility"] == "published"]
    assert [one["fileName"] for one in photos[:10]] == [f"{number:02d}.jpg" for number in reversed(range(10))]
    uploaded = [(one["createdAt"], one["uploadNumber"]) for one in photos[10:]]
    assert uploaded == sorted(uploaded), "what tells no time comes in the order of its upload"
    log = (up.data_dir / "logs" / "worker.log").read_text()
    assert log.count('"event": "worker_started"') == 1
    assert "decoder_crashed" not in log


def watching(up: Up, processes: Processes, folder: Path, album: str) -> Process:
    process = processes.lingxi("publish", str(folder), "--album", album, "--watch", "--json", env=up.env)
    wait_until_sync(lambda: album in up.run("album", "list").stdout, LONG_SECONDS)
    return process


def lines_of(process: Process) -> dict[str, str]:
    whole = process.output().rpartition("\n")[0].splitlines()
    return {Path(one["file"]).name: one["status"] for one in map(json.loads, whole) if "file" in one}


def test_a_camera_fills_the_folder(up: Up, processes: Processes, tmp_path: Path) -> None:
    """A file that grows is left alone until it has stopped; what was sent of one that paused is taken back; Ctrl-C ends it
    in order."""
    folder = folder_of(tmp_path, {"before.jpg": photo(20)})
    process = watching(up, processes, folder, "Tethered")
    whole = photo(21) + bytes(4000)
    with (folder / "grows.jpg").open("wb", buffering=0) as camera:
        camera.write(whole[:1000])
        (folder / "after.jpg").write_bytes(photo(22))

        def others_are_published() -> bool:
            camera.write(b"")  # and a little more, so that it never rests
            os.utime(folder / "grows.jpg")
            return lines_of(process).keys() == {"before.jpg", "after.jpg"}

        wait_until_sync(others_are_published, LONG_SECONDS)
        camera.write(whole[1000:])
    wait_until_sync(lambda: "grows.jpg" in lines_of(process), LONG_SECONDS)
    with (folder / "pauses.jpg").open("wb", buffering=0) as camera:
        camera.write(photo(23)[:1000])
        wait_until_sync(lambda: lines_of(process).get("pauses.jpg") == "failed", LONG_SECONDS)
        camera.write(photo(23)[1000:])
    wait_until_sync(lambda: lines_of(process)["pauses.jpg"] == "published", LONG_SECONDS)
    process.signal(signal.SIGINT)
    assert process.wait() == 0
    assert lines_of(process) == dict.fromkeys(
        ("before.jpg", "after.jpg", "grows.jpg", "pauses.jpg"), "published"
    )
    assert last_json(process.output())["published"] == 4
    assert last_json(process.output())["failed"] == 0
    assert [one["fileName"] for one in shown(up, "Tethered")].count("pauses.jpg") == 1
    sizes = {one["fileName"]: one["sizeBytes"] for one in shown(up, "Tethered")}
    assert sizes["grows.jpg"] == len(whole)


def test_interrupted_it_goes_on_where_it_stopped(up: Up, processes: Processes, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {f"{number}.jpg": photo(30 + number) for number in range(40)})
    process = processes.lingxi("publish", str(folder), "--album", "Interrupted", "--json", env=up.env)
    wait_until_sync(lambda: len(lines_of(process)) >= 3, LONG_SECONDS)
    process.signal(signal.SIGINT)
    assert process.wait() == 130
    assert "Interrupted; the same command goes on" in process.log()
    outcomes, summary = published(up, folder, "Interrupted", exit_code=0)
    assert len(outcomes) == 40
    assert summary["there"] >= 3
    assert summary["there"] + summary["published"] == 40
    assert len(shown(up, "Interrupted")) == 40


def test_a_connection_that_breaks_costs_only_what_was_on_its_way(
    up: Up, processes: Processes, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, {"large.png": picture("png", 1600, 1200)})
    with CuttingProxy.to(up.url) as proxy:
        proxy.refuse_after_sent(2_000_000)
        env = {**up.env, "LINGXI_URL": proxy.url(up.url)}
        process = processes.lingxi("publish", str(folder), "--album", "Broken", "--json", env=env)
        wait_until_sync(lambda: _refuses(proxy.port), LONG_SECONDS)
        proxy.forward()
        assert process.wait(LONG_SECONDS) == 0, process.tail()
    assert last_json(process.output())["published"] == 1


def _refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # it was closing at that very moment
        return False
    return False


def test_the_life_of_an_album(up: Up, tmp_path: Path) -> None:
    names = ["../../etc/pass wd.jpg", "b.jpg"]
    album = last_json(up.run("album", "create", "Life", "--originals", "--json").stdout)
    assert "no photo yet" in up.run("album", "show", "Life").stdout
    headers = {"Authorization": f"Bearer {up.token}"}
    photos = f"{up.url}/api/v1/albums/{album['id']}/photos"
    for number, name in enumerate(names):
        file = {"file": (name, photo(70 + number))}
        assert httpx.post(photos, headers=headers, files=file).status_code == 201
    wait_until_sync(lambda: "2 of 2 published" in up.run("album", "show", "Life").stdout, LONG_SECONDS)
    assert up.run("album", "rename", "Life", "Our life").returncode == 0

    link = last_json(up.run("album", "share", "Our life", "--expires", "2d", "--json").stdout)
    with httpx.Client(base_url=up.url) as guest:
        assert guest.get(link["url"]).status_code == 200
        assert len(guest.get(photos).json()["photos"]) == 2
        assert up.run("album", "hide", "Our life", "#1").returncode == 0
        assert [one["uploadNumber"] for one in guest.get(photos).json()["photos"]] == [2]
        assert up.run("album", "unhide", "Our life", "1").returncode == 0
        assert up.run("album", "recall", "Our life", "b.jpg").returncode == 1, "nobody said yes"
        assert up.run("album", "recall", "Our life", "b.jpg", "--yes").returncode == 0
        assert [one["uploadNumber"] for one in guest.get(photos).json()["photos"]] == [1]
        outcomes, _ = published(up, folder_of(tmp_path, {"b.jpg": photo(71)}), "Our life", exit_code=1)
        assert outcomes["b.jpg"]["error"]["code"] == "recalled", "it is in the album, and nobody sees it"
        assert link["id"] in up.run("album", "shares", "Our life").stdout
        assert up.run("album", "revoke", "Our life", link["id"]).returncode == 0
        wait_until_sync(lambda: guest.get(photos).status_code == 404, 5)

    again = up.run("album", "reprocess", "Our life", "--watch")
    assert "succeeded: 1 of 1 done" in again.stdout, again.stderr
    assert "published" in up.run("album", "stats", "Our life").stdout
    out = tmp_path / "out"
    assert up.run("album", "export", "Our life", str(out)).stdout.splitlines()[-1].startswith("1 photos")
    (exported,) = out.iterdir()
    assert exported.read_bytes() == photo(70)
    assert exported.name == "0001 pass wd.jpg"
    exported.rename(out / f".{exported.name}.part")
    os.truncate(out / f".{exported.name}.part", 500)
    assert up.run("album", "export", "Our life", str(out)).returncode == 0
    assert exported.read_bytes() == photo(70), "gone on with from where it stopped"
    browse = up.run("album", "export", "Our life", str(tmp_path / "browse"), "--browse", "--json")
    assert last_json(browse.stdout)["written"] == 1
    assert up.run("album", "delete", "Our life", "-y").returncode == 0
    assert "Our life" not in up.run("album", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        (("album", "show", "No such album"), 2, "No album is named No such album"),
        (("album", "show", "00000000-0000-4000-8000-000000000000"), 4, "nothing with this id"),
        (("album", "share", "x", "--expires", "soon"), 2, "as 12h or 7d"),
        (("publish", "no-such-folder", "--album", "x"), 2, "no-such-folder is no folder"),
        (("publish", "."), 2, "--album"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    up: Up, arguments: tuple[str, ...], exit_code: int, says: str
) -> None:
    run = up.run(*arguments)
    assert run.returncode == exit_code
    assert says in run.stderr
    assert "Traceback" not in run.stderr
