"""The HTTP application: middleware from the outside in, routes, errors."""

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from lingxi.api.changes import Changes
from lingxi.api.context import RequestContext
from lingxi.api.deps import ApiDeps
from lingxi.api.limits import BodyLimits, RequestShape
from lingxi.api.monitor import QueueMonitor
from lingxi.api.problems import Problems, on_http_exception, on_validation_error
from lingxi.api.rates import AddressRates
from lingxi.api.remembered_access import KnownTokens
from lingxi.api.routes import (
    access,
    album_stream,
    albums,
    archive_keys,
    audit,
    caps,
    contract,
    dead_letters,
    direct_uploads,
    duplicates,
    monitoring,
    object_links,
    objects,
    photos,
    priority,
    queues,
    quotas,
    retention,
    shares,
    stream,
    tasks,
    tus,
    uploads,
    variants,
    webhooks,
    why,
    worker,
    workers,
    workspaces,
)
from lingxi.api.upload_writing import UploadWriters
from lingxi.observability.http import RequestMetrics

API_ROUTERS = (
    tasks.router,
    priority.router,
    why.router,
    stream.router,
    object_links.router,
    direct_uploads.router,
    objects.router,
    uploads.router,
    tus.router,
    albums.router,
    photos.router,
    duplicates.router,
    shares.router,
    variants.router,
    album_stream.router,
    webhooks.router,
    archive_keys.router,
    audit.router,
    dead_letters.router,
    queues.router,
    workers.router,
    caps.router,
    quotas.router,
    retention.router,
    workspaces.router,
    access.router,
    worker.router,
    contract.router,
    monitoring.probes,
)


def create_app(deps: ApiDeps) -> FastAPI:
    """The API. It starts and stops nothing: pools, hub and clients belong to whoever made `deps`."""
    routers = [*API_ROUTERS]
    if deps.config.serve_monitoring:
        routers.append(monitoring.queues)
    return _build(deps, routers)


def create_monitoring_app(deps: ApiDeps) -> FastAPI:
    """Health and metrics alone, for the port that `METRICS_BIND` names; asked by address, so any Host will do."""
    return _build(deps, [monitoring.probes, monitoring.queues], any_host=True)


def _build(deps: ApiDeps, routers: list[APIRouter], *, any_host: bool = False) -> FastAPI:
    registry = CollectorRegistry()
    config = deps.config
    app = FastAPI(
        title="Lingxi",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=[
            Middleware(RequestContext, metrics=RequestMetrics(registry)),
            Middleware(BodyLimits, limits=config.limits, object_prefix=objects.PREFIX),
            Middleware(Problems),
            Middleware(
                RequestShape, limits=config.limits, allowed_hosts=("*",) if any_host else config.allowed_hosts
            ),
        ],
        exception_handlers={HTTPException: on_http_exception, RequestValidationError: on_validation_error},
    )
    app.state.deps = deps
    app.state.changes = Changes(deps.pool)
    app.state.known_tokens = KnownTokens()
    app.state.share_requests = AddressRates(config.share_requests_per_minute)
    app.state.share_exchanges = AddressRates(config.share_exchanges_per_minute)
    app.state.upload_writers = UploadWriters()
    app.state.monitor = QueueMonitor(deps.pool, deps.redis, config.queues)
    app.state.metrics_registry = registry
    app.state.routes = [route for router in routers for route in router.routes]
    for router in routers:
        app.include_router(router)
    return app
