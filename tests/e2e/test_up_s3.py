"""`lingxi up` with its files in a bucket of a real S3 server, driven by the command line alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import last_json, start_up
from tests.support.pictures import picture
from tests.support.processes import Processes, run_lingxi
from tests.support.s3 import S3Server


@pytest.mark.slow
def test_files_lie_in_the_bucket(processes: Processes, tmp_path: Path, s3_server: S3Server) -> None:
    shoot = tmp_path / "shoot"
    shoot.mkdir()
    for number in range(3):
        (shoot / f"灵犀 {number}.jpg").write_bytes(picture("jpeg", 900 + number, 600))
    settings = {"STORAGE_URL": "s3://media/up", **s3_server.environment()}
    up = start_up(processes, tmp_path / "data", **settings)

    checked = up.run("check", "--json", **settings)
    storage = [one for one in last_json(checked.stdout)["findings"] if one["part"] == "storage"]
    assert storage == [
        {
            "part": "storage",
            "level": "ok",
            "text": "s3://media/up can be written, read and cleared",
            "mend": "",
        }
    ]
    published = up.run("publish", str(shoot), "--album", "Wedding", "--json")
    assert published.returncode == 0, published.stderr
    files = [str(path) for path in sorted(shoot.iterdir())]
    verified = up.run("submit", "--type", "media:verify", *files, "--watch", "--json")
    assert verified.returncode == 0, verified.stderr
    assert last_json(verified.stdout)["status"] == "succeeded"

    paths = [one["path"] for page in s3_server.store().list(prefix="up/") for one in page]
    assert sum(path.startswith("up/objects/") for path in paths) == 6  # three originals, three objects
    assert sum(path.startswith("up/photo-live/dev/albums/") for path in paths) == 6
    assert not (tmp_path / "data" / "objects").exists()

    s3_server.store().put("beside/old.jpg", picture("jpeg", 90, 60), use_multipart=False)
    assert up.run("storage", "allow", "default", "beside/", **settings).returncode == 0
    listed = up.run("storage", "allowed", "default", "--json", **settings)
    assert last_json(listed.stdout) == {"prefixes": ["beside/"]}
    collected = up.run("storage", "collect", "--json", **settings)
    assert collected.returncode == 0, collected.stderr
    assert json.loads(collected.stdout.splitlines()[-1])["orphans"] == 0
    assert up.process.stop() == 0


def test_wrong_settings_are_told_in_a_sentence(tmp_path: Path) -> None:
    nowhere = {
        "LINGXI_DATA_DIR": str(tmp_path),
        "DATABASE_URL": "postgresql://u@127.0.0.1:9/x",
        "REDIS_URL": "redis://127.0.0.1:9",
    }
    for given, said in (
        ({"STORAGE_URL": "s3://media"}, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ({"STORAGE_URL": "ftp://media"}, "STORAGE_URL: must begin with file:/// or s3://"),
        ({"AWS_ENDPOINT_URL": "s3.example"}, "AWS_ENDPOINT_URL: must be http://host[:port]"),
    ):
        done = run_lingxi("check", env={**nowhere, **given})
        assert done.returncode == 1
        assert said in done.stdout
        assert "Traceback" not in done.stderr
    keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    away = run_lingxi(
        "check", env={**nowhere, **keys, "STORAGE_URL": "s3://media", "S3_TIMEOUT_SECONDS": "1"}
    )
    assert "PROBLEM  storage: s3://media: storage cannot serve: " in away.stdout
    bad = run_lingxi("api", env={**nowhere, **keys, "STORAGE_URL": "s3://Media Bucket"})
    assert bad.returncode != 0
    assert "STORAGE_URL must be s3://bucket" in bad.stderr
