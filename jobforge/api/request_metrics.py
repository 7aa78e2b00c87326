"""Request metrics: number of responses by route and status, and latency histograms."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from jobforge.observability import prometheus
from jobforge.observability.metrics import CALL_DURATION_BUCKETS_S, Histogram

_UNKNOWN = "unknown"


class RequestMetrics:
    """Counts by route template (api/auth/permissions.py), as path parameters would be unbounded."""

    def __init__(self) -> None:
        self._responses: Counter[tuple[str, str, int]] = Counter()
        self._seconds: defaultdict[str, Histogram] = defaultdict(
            lambda: Histogram(CALL_DURATION_BUCKETS_S)
        )

    def add(self, method: str, route: str | None, status: int, took_s: float) -> None:
        if route is None:
            method = route = _UNKNOWN
        self._responses[method, route, status] += 1
        self._seconds[route].add(took_s)

    def families(self) -> Iterator[Metric]:
        responses = CounterMetricFamily(
            "jobforge_http_requests",
            "Number of completed requests.",
            labels=["method", "route", "status"],
        )
        for (method, route, status), count in self._responses.items():
            responses.add_metric([method, route, str(status)], count)
        yield responses
        yield prometheus.histogram(
            "jobforge_http_request_seconds",
            "Duration of requests.",
            {(("route", route),): each for route, each in self._seconds.items()},
        )
