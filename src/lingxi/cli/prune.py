"""`lingxi prune`, beside the database: what workers do by themselves, at once; or only say what would go."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from lingxi.cli import running
from lingxi.cli.access import audit
from lingxi.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption
from lingxi.cli.output import Output

_STEPS = 1_000_000


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("prune")(prune)


def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be removed.")] = False,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Remove what is older than it is kept (RETENTION_…_DAYS), in small steps; workers do so every minute."""
    settings = running.settings_beside(data_dir)

    async def main() -> dict[str, int]:
        from lingxi.bootstrap.common import retention_of
        from lingxi.db.session import create_pool, transaction
        from lingxi.maintenance.pruner import Pruner
        from lingxi.services.retention import count_prunable

        pool = await create_pool(settings.database_url, name="lingxi-cli", min_size=0, max_size=1)
        try:
            retention = retention_of(settings)
            if dry_run:
                async with pool.acquire(timeout=5) as connection:
                    return await count_prunable(connection, retention)
            removed = await Pruner(pool, retention).prune_once(steps=_STEPS)
            async with transaction(pool) as connection:
                await audit(connection, None, "prune", f"rows:{sum(removed.values())}")
            return removed
        finally:
            await pool.close()

    removed = asyncio.run(main())
    output = Output(as_json)
    output.table(("KIND", "WOULD GO" if dry_run else "REMOVED"), [(k, str(n)) for k, n in removed.items()])
    output.result({"dryRun": dry_run, "rows": removed})
