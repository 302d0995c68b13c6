"""Scratch folders: whose owner lives are left alone, whose owner is dead are removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lingxi.processors.scratch import Scratch, remove_dead, remove_owner, used_bytes


def test_an_owner_that_lives_keeps_its_folders(tmp_path: Path) -> None:
    living, dead = Scratch(tmp_path, "aaaa"), Scratch(tmp_path, "bbbb")
    for scratch in (living, dead):
        (scratch.open("1") / "file").write_bytes(b"x" * 10)
    dead.abandon()
    assert remove_dead(tmp_path) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["aaaa"]
    assert (tmp_path / "aaaa" / "1" / "file").exists()
    living.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_lock_is_nobodys_business(tmp_path: Path) -> None:
    (tmp_path / "else").mkdir()
    assert remove_dead(tmp_path) == 0
    assert remove_dead(tmp_path / "nowhere") == 0
    remove_owner(tmp_path, "nobody")


def test_names_are_given_once_and_closed_to_others(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, "aaaa")
    folder = scratch.open("1")
    assert folder.stat().st_mode & 0o077 == 0
    with pytest.raises(FileExistsError):
        scratch.open("1")
    scratch.close()


def test_what_is_used_is_what_the_disk_gives(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "full").write_bytes(os.urandom(1 << 20))
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 30)
    (tmp_path / "dangling").symlink_to("nowhere")
    assert 1 << 20 <= used_bytes(tmp_path) < 2 << 20
