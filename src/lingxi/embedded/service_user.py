"""As whom PostgreSQL runs: it refuses to run as root, so a root owner has to become somebody else for it.

In this order, the first that can reach the folder:

1. not root at all: ourselves;
2. `nobody`, where every parent folder lets others pass;
3. ourselves inside a user namespace, where root is mapped to `nobody` (`unshare`; many containers allow none);
4. `nobody` who keeps the one capability to pass closed folders (`setpriv`; works in a default container).
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


def is_open(path: Path) -> bool:
    """May everybody pass through (and read) this folder and all above it?"""
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in (path, *path.parents))


@dataclass(frozen=True, slots=True)
class ServiceUser:
    """`prefix` stands before each command line; `uid` and `gid` are set in the child before it; `owner` owns files."""

    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None
    owner: tuple[int, int] | None = None
    runs_hidden_programs: bool = True
    """Not with a capability alone: PostgreSQL's programs look for each other by access(2), which ignores it."""

    def own(self, path: Path) -> None:
        """Give `path`, and what is in it, to this user, unless it is so already."""
        if self.owner is None or (path.stat().st_uid, path.stat().st_gid) == self.owner:
            return
        for folder, folders, files in os.walk(path):
            for name in (*folders, *files):
                os.chown(os.path.join(folder, name), *self.owner, follow_symlinks=False)
        os.chown(path, *self.owner)  # last: half done is done again

    def can_run(self, program: Path) -> bool:
        """Can this user reach and execute `program`, and PostgreSQL's programs find it?"""
        return self.runs_hidden_programs or is_open(program)

    def can_enter(self, folder: Path) -> bool:
        """Can this user pass through `folder`, and is it not root?"""
        script = '[ "$(id -u)" != 0 ] && [ -x "$1" ]'
        done = subprocess.run(
            [*self.prefix, "/bin/sh", "-c", script, "sh", str(folder)],
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
    for candidate in _candidates(account.pw_uid, account.pw_gid):
        if candidate.can_enter(folder.parent):  # the folder itself is ours to open
            return candidate
    raise EmbeddedError(
        f"PostgreSQL refuses to run as root, and no unprivileged user can reach {folder}: "
        "choose a data folder outside of closed folders such as /root (LINGXI_DATA_DIR)"
    )


def _candidates(uid: int, gid: int) -> list[ServiceUser]:
    found = [ServiceUser(uid=uid, gid=gid, owner=(uid, gid), runs_hidden_programs=False)]
    if unshare := shutil.which("unshare"):
        enter = (unshare, "--user", f"--map-user={uid}", f"--map-group={gid}", "--")
        found.append(ServiceUser(prefix=enter, owner=(0, 0)))
    if setpriv := shutil.which("setpriv"):
        capability = "+dac_override"
        become = (setpriv, f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--pdeathsig=keep")
        keep = (f"--inh-caps={capability}", f"--ambient-caps={capability}", "--")
        found.append(ServiceUser(prefix=become + keep, owner=(uid, gid), runs_hidden_programs=False))
    return found
