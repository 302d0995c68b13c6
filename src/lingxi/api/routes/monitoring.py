"""Health and metrics. Open, and meant for the internal network.

`METRICS_BIND` moves queue health and metrics to a port of their own.
"""

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api import examples, schemas
from lingxi.api.answers import json_answer
from lingxi.api.deps import deps_of
from lingxi.api.disk_metrics import disk_gauges
from lingxi.api.documented import documented
from lingxi.api.monitor import QueueMonitor, within
from lingxi.api.stream_metrics import stream_gauges
from lingxi.broker.client import ping
from lingxi.broker.errors import BrokerError
from lingxi.db.revision import is_current
from lingxi.domain.errors import PostgresUnavailable
from lingxi.observability.metrics import COLLECT_SECONDS, CONTENT_TYPE, Collector, Gauge, Metric, render
from lingxi.services.read_health import read_revision

probes = APIRouter(prefix="/api/v1", tags=["Health"])
queues = APIRouter(prefix="/api/v1", tags=["Health"])

_MIGRATION_PENDING = PostgresUnavailable("The database has a migration pending: run `lingxi migrate`.")


@probes.get(
    "/health/live",
    **documented(
        summary="Is this process alive?",
        answer=schemas.LiveHealth,
        example={"status": "ok"},
        errors=(doc.BAD_REQUEST, doc.INTERNAL),
    ),
)
async def live() -> Response:
    return json_answer({"status": "ok"})


@probes.get(
    "/health/ready",
    **documented(
        summary="Can this API serve?",
        meaning="PostgreSQL answers and is migrated. Redis may be away: a submission needs none.",
        answer=schemas.ReadyHealth,
        example={"status": "ready", "postgresql": "up", "redis": "up"},
        errors=(doc.BAD_REQUEST, doc.INTERNAL, doc.NO_POSTGRESQL, _MIGRATION_PENDING),
    ),
)
async def ready(request: Request) -> Response:
    deps = deps_of(request)

    async def revision() -> str | None:
        async with deps.pool.acquire(timeout=COLLECT_SECONDS) as connection:
            return await read_revision(connection)

    if not is_current(await within(revision, COLLECT_SECONDS)):
        raise _MIGRATION_PENDING
    redis = "up"
    try:
        await within(lambda: ping(deps.redis), COLLECT_SECONDS)
    except (BrokerError, TimeoutError):
        redis = "down"
    return json_answer({"status": "ready", "postgresql": "up", "redis": redis})


@queues.get(
    "/health/queues",
    **documented(
        summary="Are the queues well?",
        meaning="For each queue its counts, the longest wait, the workers' heartbeat. A backlog without a fresh "
        "heartbeat is `degraded`, still 200: alerts do the paging.",
        answer=schemas.QueuesHealth,
        example=examples.QUEUES,
        errors=(doc.BAD_REQUEST, doc.INTERNAL, doc.NO_REDIS, doc.NO_POSTGRESQL),
    ),
)
async def queues_health(request: Request) -> Response:
    monitor: QueueMonitor = request.app.state.monitor
    return json_answer(await monitor.health())


@queues.get("/metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    monitor: QueueMonitor = request.app.state.monitor
    hub = deps_of(request).hub

    async def streams() -> list[Metric]:
        return stream_gauges(hub)

    async def disks() -> list[Gauge]:
        return await asyncio.to_thread(disk_gauges, deps_of(request).config.disks)

    async def quotas() -> list[Gauge]:
        return deps_of(request).quotas.gauges()

    collectors = [
        *monitor.collectors(),
        Collector("streams", streams),
        Collector("disks", disks),
        Collector("quotas", quotas),
    ]
    text = await render(collectors, request.app.state.metrics_registry)
    return Response(text, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})
