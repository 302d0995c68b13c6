"""As whom PostgreSQL runs: it refuses to run as root, so a root owner has to become somebody else for it.

In this order, the first that can reach the folder:

1. not root at all: ourselves;
2. `nobody`, where every parent folder lets others pass;
3. `nobody` who keeps the one capability to pass closed folders (`setpriv`; works in a default container);
4. ourselves inside a user namespace, where root is mapped to `nobody` (`unshare`).
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lingxi.embedded.supervise import EmbeddedError

_ACCOUNT = "nobody"


@dataclass(frozen=True, slots=True)
class ServiceUser:
    """`prefix` stands before each command line; `uid` and `gid` are set in the child before it; `owner` owns files."""

    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None
    owner: tuple[int, int] | None = None

    def own(self, path: Path) -> None:
        """Give `path`, and what is in it, to this user, unless it is so already."""
        if self.owner is None or (path.stat().st_uid, path.stat().st_gid) == self.owner:
            return
        for folder, folders, files in os.walk(path):
            for name in (*folders, *files):
                os.chown(os.path.join(folder, name), *self.owner, follow_symlinks=False)
        os.chown(path, *self.owner)  # last: half done is done again

    def can_run(self, program: Path) -> bool:
        """Can this user reach and execute `program`?"""
        return self._passes("-x", program)

    def can_enter(self, folder: Path) -> bool:
        """Can this user pass through `folder`, and is it not root?"""
        return self._passes("-x", folder)

    def _passes(self, test: str, path: Path) -> bool:
        script = f'[ "$(id -u)" != 0 ] && [ {test} "$1" ]'
        done = subprocess.run(
            [*self.prefix, "/bin/sh", "-c", script, "sh", str(path)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            user=self.uid,
            group=self.gid,
            extra_groups=None if self.uid is None else [],
        )
        return done.returncode == 0


def choose_service_user(folder: Path) -> ServiceUser:
    """The user that PostgreSQL runs as for a data folder inside `folder`."""
    if os.geteuid() != 0:
        return ServiceUser()
    account = pwd.getpwnam(_ACCOUNT)
    uid, gid = account.pw_uid, account.pw_gid
    candidates = [ServiceUser(uid=uid, gid=gid, owner=(uid, gid))]
    if setpriv := shutil.which("setpriv"):
        capability = "+dac_override"
        become = (setpriv, f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--pdeathsig=keep")
        keep = (f"--inh-caps={capability}", f"--ambient-caps={capability}", "--")
        candidates.append(ServiceUser(prefix=become + keep, owner=(uid, gid)))
    if unshare := shutil.which("unshare"):
        enter = (unshare, "--user", f"--map-user={uid}", f"--map-group={gid}", "--")
        candidates.append(ServiceUser(prefix=enter, owner=(0, 0)))
    parent = folder.parent  # the folder itself is ours to open
    for candidate in candidates:
        if candidate.can_enter(parent):
            return candidate
    raise EmbeddedError(
        f"PostgreSQL refuses to run as root, and no unprivileged user can reach {folder}: "
        "choose a data folder outside of closed folders such as /root (LINGXI_DATA_DIR)"
    )
