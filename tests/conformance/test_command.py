"""`python -m lingxi.conformance` from outside: what it prints, and its exit codes."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from lingxi.conformance.run import RULES
from tests.conformance.small_server import TOKEN, serving
from tests.support.processes import environment


async def _conform(*arguments: str, **env: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "lingxi.conformance", *arguments,
        env=environment(**env), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_a_line_a_rule_and_a_count() -> None:
    async with serving() as url:
        code, out, _ = await _conform(url, "--rule", "headers", "--rule", "restart", LINGXI_TOKEN=TOKEN)
    first, second, why, last = out.splitlines()
    assert code == 0
    assert first.startswith("passed") and "headers" in first and "6/6" in first
    assert second.startswith("not tried") and "restart" in second and "--restart-command" in why
    assert last == "1 of 2 rules passed, not tried: restart"


async def test_json_and_the_token_in_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    async with serving("buffered") as url:
        code, out, _ = await _conform(url, "--rule", "headers", "--json", LINGXI_DATA_DIR=str(tmp_path))
    assert code == 1
    assert json.loads(out) == {
        "ok": False,
        "rules": {
            "headers": {
                "passed": 4,
                "failed": 2,
                "tried": True,
                "why": json.loads(out)["rules"]["headers"]["why"],
            }
        },
    }


async def test_nothing_tried_is_not_ok() -> None:
    async with serving() as url:
        code, out, _ = await _conform(url, "--rule", "restart", "--json", LINGXI_TOKEN=TOKEN)
    assert (code, json.loads(out)["ok"]) == (1, False)


async def test_what_cannot_be_tried(tmp_path: Path) -> None:
    code, _, err = await _conform("http://127.0.0.1:9", LINGXI_DATA_DIR=str(tmp_path))
    assert code == 2 and "a token is needed" in err
    async with serving() as url:
        code, _, err = await _conform(url, LINGXI_TOKEN="lx_wrong")
        assert code == 2 and "401" in err and "Traceback" not in err
        code, _, err = await _conform(url, "--rule", "no-such", LINGXI_TOKEN=TOKEN)
        assert code == 2 and "no-such" in err


async def test_the_list_of_rules() -> None:
    code, out, _ = await _conform("--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [rule.name for rule in RULES]
