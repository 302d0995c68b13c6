"""The npm peers' packages, installed from the hash-checked lock when they are missing or the lock has changed."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.peer_env import HERE, environment_dir

SHARP = HERE / "peers" / "sharp"


def sharp_folder() -> Path:
    """A folder with the peer's script and its packages. RuntimeError where there is no Node."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise RuntimeError("the photo benchmark needs node and npm for its peer")
    wanted = hashlib.sha256((SHARP / "package-lock.json").read_bytes()).hexdigest()
    target = environment_dir().with_name(f"{environment_dir().name}-sharp")
    stamp = target / ".lock-sha256"
    if not (stamp.exists() and stamp.read_text() == wanted):
        print(f"installing sharp into {target.name} …", file=sys.stderr, flush=True)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(SHARP / name, target / name)
        npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        # npm's own configuration (a mirror, certificates) comes from the environment
        subprocess.run(npm, cwd=target, check=True, env=os.environ, stdout=subprocess.DEVNULL)
        stamp.write_text(wanted)
    shutil.copyfile(SHARP / "peer.mjs", target / "peer.mjs")
    return target
