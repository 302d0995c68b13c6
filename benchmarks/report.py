"""What a benchmark hands back, as text for people and as one JSON line for programs."""

import json
import shlex
import sys
from dataclasses import dataclass, field
from typing import Any

from benchmarks.machine import describe_machine


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence that was put to the test. `required` ones decide the exit code, the others are printed as aims."""

    text: str
    value: float | str
    holds: bool
    required: bool = True


@dataclass(slots=True)
class Report:
    """One benchmark's figures. Ratios are written so that more than 1 means that Lingxi is better."""

    bench: str
    lingxi: dict[str, Any] = field(default_factory=dict)
    peers: dict[str, dict[str, Any]] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    excludes: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def say(self, line: str) -> None:
        """Add a line to the text, and show it at once on the error stream (stdout is for the result)."""
        self.lines.append(line)
        print(line, file=sys.stderr, flush=True)

    def claim(self, text: str, value: float | str, holds: bool, *, required: bool = True) -> None:
        self.claims.append(Claim(text, value, holds, required))

    @property
    def ok(self) -> bool:
        """Whether every required claim holds."""
        return all(claim.holds for claim in self.claims if claim.required)

    def as_json(self) -> str:
        body = {
            "bench": self.bench,
            "lingxi": self.lingxi,
            "peers": self.peers,
            "ratios": {name: round(value, 2) for name, value in self.ratios.items()},
            "ok": self.ok,
            "claims": [
                {"claim": c.text, "value": c.value, "holds": c.holds, "required": c.required}
                for c in self.claims
            ],
            "excludes": self.excludes,
            "command": command_line(),
            "machine": describe_machine(),
        }
        return json.dumps(body, ensure_ascii=False)

    def as_text(self) -> str:
        out = [f"{self.bench}: {command_line()}", "", *self.lines, ""]
        out += [f"ratio to {name}: {value:.2f}" for name, value in self.ratios.items()]
        for claim in self.claims:
            verdict = "holds" if claim.holds else ("FAILS" if claim.required else "not reached")
            kind = "claim" if claim.required else "aim"
            out.append(f"{kind} {verdict}: {claim.text} (measured: {claim.value})")
        out += [f"not in the figures: {line}" for line in self.excludes]
        out.append("machine: " + ", ".join(f"{key} {value}" for key, value in describe_machine().items()))
        return "\n".join(out)


def command_line() -> str:
    """The command as a reader would type it."""
    return shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]])
