"""Make or mend `.venv` from a hash-checked lock; `./run` calls it with the system's Python before anything else.

`python3 scripts/environment.py [--dev]` ends quickly when the environment is as the lock says. Two at once wait for
each other. Only the standard library is used.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
BUILD_LOCK = ROOT / "requirements-build.lock"
"""What builds pyvips, the one package without a wheel; without cffi beside it the result is pure Python."""
FROM_SOURCE = "pyvips"
LOCKS = {"runtime": ROOT / "requirements.lock", "dev": ROOT / "requirements-dev.lock"}
STAMP = VENV / "lingxi-lock"

NO_PIP = """This Python has neither venv's ensurepip nor pip, so no private environment can be made.
Install one of them first, for example: apt-get install python3-venv"""


def main() -> int:
    wanted = "dev" if "--dev" in sys.argv[1:] else "runtime"
    if VENV.is_symlink():  # to make it anew would clear what it leads to, which may be another checkout's
        print(f"{VENV} is a link: remove it, and it is made here.", file=sys.stderr)
        return 1
    if _is_current(wanted):
        return 0
    with open(ROOT / ".venv.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_current(wanted):  # somebody else has made it while we waited
            return 0
        try:
            _make(wanted)
        except subprocess.CalledProcessError as error:
            print(
                f"The environment could not be made (status {error.returncode}); see above.", file=sys.stderr
            )
            return 1
    return 0


def _is_current(wanted: str) -> bool:
    """The development lock holds everything of the other, at the same versions."""
    try:
        stamp = STAMP.read_text()
    except OSError:
        return False
    acceptable = {_stamp("dev")} if wanted == "dev" else {_stamp("dev"), _stamp("runtime")}
    return stamp in acceptable and os.access(PYTHON, os.X_OK)


def _stamp(kind: str) -> str:
    """Other contents, another folder (scripts name it), another Python: another stamp."""
    digest = hashlib.sha256(BUILD_LOCK.read_bytes() + LOCKS[kind].read_bytes()).hexdigest()
    return f"{kind} {digest} {PYTHON.resolve()} {VENV}\n"


def _make(kind: str) -> None:
    print(f"Setting up a private environment in {VENV} (this once) …", file=sys.stderr, flush=True)
    had = STAMP.read_text() if STAMP.exists() else ""
    STAMP.unlink(missing_ok=True)
    if not had.endswith(f" {PYTHON.resolve()} {VENV}\n"):  # unfinished, moved, or its Python is gone
        _make_empty()
    pip = [str(PYTHON), "-m", "pip"]
    if not (VENV / "bin" / "pip").exists():
        pip = [sys.executable, "-m", "pip", "--python", str(PYTHON)]
    options = ["--require-hashes", "--no-deps", "--no-input", "-qq", "--disable-pip-version-check"]
    options += ["--no-build-isolation", "--only-binary", ":all:", "--no-binary", FROM_SOURCE]
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PIP_USER")
    }
    for lock in (BUILD_LOCK, LOCKS[kind]):
        command = [*pip, "install", *options, "-r", str(lock)]
        subprocess.run(command, check=True, stdout=sys.stderr, env=environment)
    STAMP.write_text(_stamp(kind))


def _make_empty() -> None:
    options = ["--clear"]
    if importlib.util.find_spec("ensurepip") is None:  # Debian splits it off
        if importlib.util.find_spec("pip") is None:
            sys.exit(NO_PIP)
        options.append("--without-pip")
    subprocess.run([sys.executable, "-m", "venv", *options, str(VENV)], check=True)


if __name__ == "__main__":
    sys.exit(main())
