"""What every process does first, and what several of them need."""

import asyncio
import gc
import os
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from lingxi import __version__
from lingxi.broker.checks import server_report
from lingxi.broker.client import api_client
from lingxi.broker.errors import BrokerUnavailable
from lingxi.db.session import Pool, transaction
from lingxi.imaging.children import Decoders
from lingxi.maintenance.object_collector import CollectorConfig
from lingxi.observability import failpoints, tracing
from lingxi.observability.logging import configure, get_logger
from lingxi.processors.contract import Processor
from lingxi.processors.demo_drill import DRILL
from lingxi.processors.export_archive import ExportArchive
from lingxi.processors.finding import find_processors
from lingxi.processors.media_probe import MediaProbe
from lingxi.processors.media_verify import MediaVerify
from lingxi.processors.outgoing.addresses import AddressRule
from lingxi.processors.outgoing.post import Poster
from lingxi.processors.photo_fingerprint import PhotoFingerprint
from lingxi.processors.photo_process import PhotoProcess
from lingxi.processors.publish import PublishDeps
from lingxi.processors.registry import Registry
from lingxi.processors.video_poster import VideoPoster
from lingxi.processors.video_transcode import VideoTranscode
from lingxi.processors.webhook_deliver import WebhookDeliver
from lingxi.services.retention import Retention
from lingxi.settings import Settings, SettingsError
from lingxi.storage import S3Access, Storage, open_storage
from lingxi.video.children import VideoChildren
from lingxi.worker.shutdown import StopSignals

_log = get_logger("bootstrap")

EXIT_REFUSED = 78  # EX_CONFIG: started again it would refuse again


class StartRefused(Exception):
    """The configuration or a server is such that running would do harm; the message says what to mend."""


def prepare(settings: Settings, role: str) -> None:
    """Logging, the garbage collector and, in tests, failpoints."""
    configure(settings.log_level, role=role, pid=os.getpid())
    _calm_garbage_collector()
    if role != "supervisor":
        _start_tracing(settings, role)
    if settings.lingxi_failpoints:
        failpoints.arm(settings.lingxi_failpoints, settings.lingxi_failpoints_dir)


def _start_tracing(settings: Settings, role: str) -> None:
    try:
        tracing.start(
            f"lingxi-{role}",
            settings.otel_exporter_otlp_endpoint,
            ratio=settings.otel_traces_sampler_arg,
            version=__version__,
        )
    except tracing.TracingMissing as missing:
        raise StartRefused(str(missing)) from None


def _calm_garbage_collector() -> None:
    """A fifth of a busy process's time went into looking for cycles among imported modules and short-lived values."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def storage_url(settings: Settings) -> str:
    """STORAGE_URL, or the folder in the data folder."""
    return settings.storage_url or (settings.data_dir / "objects").as_uri()


def make_storage(settings: Settings) -> Storage:
    """The storage that STORAGE_URL names; StartRefused when it names none."""
    access = S3Access(
        endpoint=settings.aws_endpoint_url or f"https://s3.{settings.aws_region}.amazonaws.com",
        region=settings.aws_region,
        access_key_id=settings.aws_access_key_id,
        secret_access_key=settings.aws_secret_access_key,
        session_token=settings.aws_session_token,
        public_endpoint=settings.s3_public_url,
        timeout_seconds=settings.s3_timeout_seconds,
    )
    try:
        return open_storage(storage_url(settings), access)
    except ValueError as error:
        raise StartRefused(str(error)) from error


def collector_config(settings: Settings) -> CollectorConfig:
    """The object collector's part of the settings."""
    return CollectorConfig(
        photo_root=f"{settings.photo_prefix}/{settings.photo_environment}/",
        interval_seconds=settings.collect_interval_seconds,
        scan_seconds=settings.orphan_scan_seconds,
        orphan_seconds=settings.orphan_after_seconds,
        trash_seconds=settings.orphan_trash_seconds,
    )


def retention_of(settings: Settings) -> Retention:
    """What is kept for how long."""
    return Retention(
        settings.retention_tasks_days,
        settings.retention_events_days,
        settings.retention_webhooks_days,
        settings.retention_audit_days,
        settings.retention_objects_days,
    )


def secret_keys(settings: Settings) -> tuple[bytes, ...]:
    """The keys that were set, else the one in the data folder, made at the first start."""
    if settings.secret_keys:
        return settings.secret_keys
    path = settings.data_dir / "secret-key"
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"secret-key.{secrets.token_hex(8)}")
    if not path.exists():
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(48))
        with suppress(FileExistsError):  # a process beside us was first: its key holds
            os.link(draft, path)
        draft.unlink()
    return (path.read_text("ascii").strip().encode(),)


def scratch_root(settings: Settings) -> Path:
    """Where worker processes have their scratch folders."""
    return settings.data_dir / "scratch" / "attempts"


def publish_deps(
    settings: Settings, decoders: Decoders, pool: Pool, storage: Storage, scratch_folder: Path | None = None
) -> PublishDeps:
    """What publishing a photo needs."""
    return PublishDeps(
        storage=storage,
        decoders=decoders,
        transaction=lambda: transaction(pool),
        scratch_folder=scratch_folder or settings.data_dir / "scratch",
        prefix=settings.photo_prefix,
        environment=settings.photo_environment,
    )


def webhook_poster(settings: Settings) -> Poster:
    """What sends webhooks, and knows where it must not."""
    return Poster(AddressRule(settings.webhook_networks))


def make_registry(settings: Settings, decoders: Decoders, pool: Pool, storage: Storage) -> Registry:
    """The processors of this deployment. The API needs them too: they know what an input must look like."""
    photos = PhotoProcess(publish_deps(settings, decoders, pool, storage))
    verify = MediaVerify(decoders, lambda: pool.acquire(timeout=5), settings.data_dir / "scratch")
    processors: list[Processor[Any]] = [
        DRILL,
        verify.processor(),
        photos.processor(),
        PhotoFingerprint(decoders).processor(),
        MediaProbe(decoders, VideoChildren()).processor(),
        VideoPoster(VideoChildren()).processor(),
        VideoTranscode(VideoChildren()).processor(),
        ExportArchive(lambda: secret_keys(settings)).processor(),
        WebhookDeliver(lambda: pool.acquire(timeout=5), webhook_poster(settings)).processor(),
    ]
    users = [found.processor for found in find_processors(settings.processor_modules)]
    return Registry([*processors, *users], settings.deployed_queues)


async def refuse_bad_redis(url: str) -> None:
    """StartRefused when Redis would lose jobs (eviction policy, version, a replica). Away is no reason: it may come."""
    client = api_client(url)
    try:
        report = await server_report(client)
    except BrokerUnavailable as error:
        _log.warning("redis_unavailable_at_start", reason=str(error)[:200])
        return
    finally:
        await client.aclose()
    for note in report.notes:
        _log.info("redis_note", note=note)
    if not report.ok:
        raise StartRefused(" ".join(report.problems))


async def until_signalled(work: Callable[[asyncio.Event], Any]) -> int:
    """Run `work(stop)` until it ends; the first SIGTERM or SIGINT sets `stop`, a second ends the process at once."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def asked() -> None:
        loop.call_soon_threadsafe(stop.set)

    StopSignals(asked).install()
    try:
        await work(stop)
    except (StartRefused, SettingsError) as refused:
        print(f"lingxi: {refused}", file=sys.stderr)  # noqa: T201 - one plain sentence for who starts it
        return EXIT_REFUSED
    return 0


async def close_pool(pool: Pool) -> None:
    try:
        await asyncio.wait_for(pool.close(), 5)
    except Exception as error:
        _log.warning("close_failed", what="postgres", reason=type(error).__name__)
        pool.terminate()
