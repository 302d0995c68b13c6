"""Plants one bug after another in a copy of the tree, and runs the tests that ought to notice: `./run mutate`.

Exits 0 only when each bug was noticed. The same tests have to pass without any bug first. What was found out is kept
below `.lingxi` under a digest of all code and tests, so a run that was broken off goes on where it was (`--resume`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from scripts import rules
from tests.mutation.mutants import MUTANTS, Mutant
from tests.support.resume import digest_of_tree

ROOT = rules.ROOT
COPIES = ROOT / ".lingxi" / "mutate"
KEPT = ROOT / ".lingxi" / "mutated"
TIME_LIMIT_SECONDS = 900
SOUND = "without any bug"


@dataclass(frozen=True, slots=True)
class Verdict:
    mutant: Mutant
    noticed: bool
    seconds: float
    by: str


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    chosen = [mutant for mutant in MUTANTS if not options.names or mutant.name in options.names]
    if options.list:
        for mutant in chosen:
            print(f"{mutant.area:14} {mutant.name:60} {mutant.path}")
        return 0
    kept = _Kept(options.resume)
    copies: SimpleQueue[Path] = SimpleQueue()
    for number in range(options.jobs):
        copies.put(_copy(COPIES / str(number)))
    try:
        tests = sorted({test for mutant in chosen for test in mutant.tests})
        if not kept.noticed(f"{SOUND}: {tests}"):
            print(f"{SOUND}: {len(tests)} groups of tests", flush=True)
            sound = _run(COPIES / "0", tests, stop_at_once=False)
            if sound.returncode != 0 or " passed" not in sound.stdout:
                print(sound.stdout[-6000:], sound.stderr[-2000:])
                print("The tests fail without any bug: nothing can be said.")
                return 1
            kept.keep(f"{SOUND}: {tests}")
        with ThreadPoolExecutor(options.jobs) as pool:
            verdicts = list(pool.map(lambda mutant: _judge(mutant, copies, kept), chosen))
    finally:
        shutil.rmtree(COPIES, ignore_errors=True)
    survivors = [verdict.mutant.name for verdict in verdicts if not verdict.noticed]
    print(f"{len(verdicts) - len(survivors)} of {len(verdicts)} noticed; survivors: {survivors or 'none'}")
    if options.json:
        print(json.dumps({"ok": not survivors, "mutants": len(verdicts), "survivors": survivors}))
    return int(bool(survivors))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./run mutate", description="Plant small bugs; list those that no test notices."
    )
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--jobs", type=int, default=2, help="copies of the tree that are tested at once")
    parser.add_argument(
        "--resume", action="store_true", help="leave out what was noticed on the code as it is"
    )
    parser.add_argument("--list", action="store_true", help="only list them")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


def _copy(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    for path in rules.tracked_files():
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    return folder


class _Kept:
    """What was noticed before on the code exactly as it is now."""

    def __init__(self, resume: bool) -> None:
        self._path = KEPT / digest_of_tree()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._known = set(self._path.read_text().splitlines()) if resume and self._path.exists() else set()

    def noticed(self, name: str) -> bool:
        return name in self._known

    def keep(self, name: str) -> None:
        with open(self._path, "a") as kept:
            kept.write(name + "\n")


def _judge(mutant: Mutant, copies: SimpleQueue[Path], kept: _Kept) -> Verdict:
    if kept.noticed(mutant.name):
        return Verdict(mutant, True, 0.0, "before")
    folder, began = copies.get(), time.monotonic()
    path = folder / mutant.path
    sound = path.read_text("utf-8")
    try:
        if sound.count(mutant.old) != mutant.times:
            verdict = Verdict(
                mutant, False, 0.0, f"the text is there {sound.count(mutant.old)} times: mend the list"
            )
        else:
            path.write_text(sound.replace(mutant.old, mutant.new), "utf-8")
            ran = _run(folder, mutant.tests, stop_at_once=True)
            failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
            noticed = ran.returncode == 1 and bool(failed)
            by = failed[0][:150] if failed else f"pytest ended with {ran.returncode}: {ran.stdout[-300:]}"
            verdict = Verdict(mutant, noticed, time.monotonic() - began, by)
    finally:
        path.write_text(sound, "utf-8")
        copies.put(folder)
    if verdict.noticed:
        kept.keep(mutant.name)
    mark = "noticed " if verdict.noticed else "SURVIVED"
    print(f"{mark} {mutant.area}: {mutant.name} ({verdict.seconds:.0f} s) {verdict.by}", flush=True)
    return verdict


def _run(folder: Path, tests: Sequence[str], *, stop_at_once: bool) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        "--no-header",
        "--tb=no",
    ]
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'src'}:{folder}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.run(
            [*command, *(["-x"] if stop_at_once else []), *tests],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:  # it hangs: that is noticed too
        return subprocess.CompletedProcess(error.cmd, 1, "FAILED: it did not end in time", "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
