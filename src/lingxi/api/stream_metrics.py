"""What the event streams of this process do, for `/metrics`."""

from lingxi.observability.metrics import Gauge, Histogram, Metric
from lingxi.observability.tallies import Distribution
from lingxi.stream.hub import Hub


def stream_gauges(hub: Hub) -> list[Metric]:
    """Streams that are open, what they watch, and how streams fared since the start of the process."""
    counts = hub.counts
    return [
        Gauge(
            "lingxi_stream_connections",
            "Open event streams of this process, by what they watch.",
            ("kind",),
            {(kind,): count for kind, count in hub.open_by_kind().items()},
        ),
        Gauge("lingxi_stream_watched_tasks", "Tasks that these streams watch.", (), {(): hub.tasks}),
        Gauge("lingxi_stream_watched_albums", "Albums that these streams watch.", (), {(): hub.albums}),
        Gauge(
            "lingxi_stream_ended_total",
            "Streams that this server ended: stalled took nothing for a minute; revoked lost its token or share link.",
            ("reason",),
            {("stalled",): counts.stalled, ("revoked",): counts.revoked},
            "counter",
        ),
        Gauge(
            "lingxi_stream_fell_behind_total",
            "Times that a slow reader was served from the database again.",
            (),
            {(): counts.fell_behind},
            "counter",
        ),
        Gauge(
            "lingxi_stream_refused_total",
            "Streams that were refused, as too many are open.",
            (),
            {(): counts.refused},
            "counter",
        ),
        Histogram(
            "lingxi_stream_end_seconds",
            "From the commit that ended a task's round until those who watched it were told.",
            (),
            {(): Distribution(tuple(counts.ends), counts.ends_seconds)},
        ),
    ]
