"""Counters and latencies of HTTP requests, for `/metrics`; labels are route templates, never addresses."""

from prometheus_client import CollectorRegistry, Histogram

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class RequestMetrics:
    """One process's HTTP latencies by method, route and class of status; the count is the histogram's own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "lingxi_http_request_seconds",
            "Time from the request's head to the end of the answer (of an event stream: to its beginning), in seconds.",
            ("method", "route", "status"),
            buckets=_BUCKETS,
            registry=registry,
        )

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request; `status` 0 means that no answer was sent."""
        self._seconds.labels(method, route, f"{status // 100}xx" if status else "none").observe(seconds)
