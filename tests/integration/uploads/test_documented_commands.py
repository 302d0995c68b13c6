"""The commands of docs/uploads.md, run as they stand there."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from tests.integration.uploads.stage import Stage, jpeg
from tests.support.processes import environment
from tests.support.programs import need_program

PAGE = Path(__file__).parents[3] / "docs" / "uploads.md"


async def test_the_commands_do_what_the_page_says(roomy: Stage, tmp_path: Path) -> None:
    for program in ("bash", "curl", "python3"):
        need_program(program, "to run the documented commands")
    (tmp_path / "IMG_0001.jpg").write_bytes(jpeg(1, 90_000))
    (tmp_path / "DSC_0002.NEF").write_bytes(b"FUJIFILMCCD-RAW 0201" + bytes(100))
    first, *blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    set_up = first.replace("http://127.0.0.1:3000", roomy.api.url).replace("lx_…", roomy.world.ours.editor)
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euo", "pipefail", "-c", "\n".join([set_up, *blocks])),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=tmp_path,
        env=environment(),
    )
    async with asyncio.timeout(60):
        output = (await process.communicate())[0].decode()
    assert process.returncode == 0, output
    assert '"status":"created"' in output and '"code":"unsupported_type"' in output, output
    [photo] = await roomy.pool.fetch("select * from photos")
    assert f"lingxi-photo-id: {photo['id']}" in output and "lingxi-photo-created: false" in output, output
