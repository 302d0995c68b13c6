"""The peers' own environment, made from the hash-checked lock when it is missing or the lock has changed."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).parent
LOCK = HERE / "peers.lock"


def environment_dir() -> pathlib.Path:
    """Where the environment lives: `LINGXI_BENCH_ENV`, else `.venv-bench` beside the package."""
    return pathlib.Path(os.environ.get("LINGXI_BENCH_ENV") or HERE.parent / ".venv-bench").absolute()


def peer_python() -> str:
    """The interpreter that runs the peers; installs them first if need be (about 20 s, once)."""
    target = environment_dir()
    python, stamp = target / "bin" / "python", target / ".lock-sha256"
    wanted = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if not (python.exists() and stamp.exists() and stamp.read_text() == wanted):
        print(f"installing the peers into {target.name} …", file=sys.stderr, flush=True)
        shutil.rmtree(target, ignore_errors=True)
        venv.create(target, with_pip=True)
        pip = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--require-hashes",
        ]
        subprocess.run([*pip, "--no-deps", "-r", str(LOCK)], check=True)
        stamp.write_text(wanted)
    return str(python)
