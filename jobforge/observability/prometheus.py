"""Prometheus metrics: names, help and labels for the counters of metrics.py.

Needs prometheus-client (`jobforge[metrics]`).
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.process_collector import ProcessCollector

from jobforge.observability.metrics import Histogram, Meters

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

_GAUGES = {
    "running": ("jobforge_worker_running_jobs", "Number of jobs that this worker is running."),
    "slots": ("jobforge_worker_slots", "Number of slots of this worker."),
    "unsettled": (
        "jobforge_worker_unsettled_jobs",
        "Number of finished jobs whose outcome is not recorded yet.",
    ),
    "disconnected": ("jobforge_worker_disconnected", "1 while the database is unreachable."),
}


def render_page(families: Iterable[Metric]) -> bytes:
    """Return the metrics as text, including those of the process itself."""
    return generate_latest(
        _StaticCollector([*families, *ProcessCollector(registry=None).collect()])
    )


def collect_families(meters: Meters) -> Iterator[Metric]:
    """Yield the metrics of a worker or a scheduler."""
    for name, (metric, help_text) in _GAUGES.items():
        if name in meters.gauges:
            yield GaugeMetricFamily(metric, help_text, meters.gauges[name]())
    yield counter("jobforge_claimed_jobs", "Number of claimed jobs.", meters.claimed, "queue")
    yield counter(
        "jobforge_first_claims",
        "Number of jobs claimed for their first attempt.",
        meters.first_claims,
        "definition",
    )
    yield _attempts(meters)
    yield counter(
        "jobforge_retries",
        "Number of failed attempts that will be retried.",
        *_with_definition_label(meters.retries),
    )
    yield counter(
        "jobforge_dead_jobs",
        "Number of attempts after which the job was dead.",
        *_with_definition_label(meters.dead),
    )
    waits, runs = (
        _label_histograms("queue", meters.waits),
        _label_histograms("definition", meters.runs),
    )
    yield histogram("jobforge_wait_seconds", "Time from queued to claimed.", waits)
    yield histogram("jobforge_run_seconds", "Run time of attempts.", runs)
    yield histogram("jobforge_claim_seconds", "Duration of claims.", {(): meters.claim_s})
    yield histogram("jobforge_claim_jobs", "Number of jobs per claim.", {(): meters.claim_sizes})
    yield histogram("jobforge_settle_seconds", "Duration of settling.", {(): meters.settle_s})
    yield histogram(
        "jobforge_settle_jobs", "Number of jobs settled at once.", {(): meters.settle_sizes}
    )
    for metric, help_text, count in (
        (
            "jobforge_lost_leases",
            "Number of jobs that this worker lost to other workers.",
            meters.lost_leases,
        ),
        (
            "jobforge_reaped_jobs",
            "Number of jobs of dead workers that this worker freed.",
            meters.reaped,
        ),
        (
            "jobforge_children_started",
            "Number of processes started for jobs.",
            meters.children_started,
        ),
        (
            "jobforge_children_killed",
            "Number of processes of jobs that a signal killed.",
            meters.children_killed,
        ),
        ("jobforge_firings", "Number of recorded firings of schedules.", meters.firings),
        ("jobforge_dispatched_events", "Number of dispatched events.", meters.events),
    ):
        yield CounterMetricFamily(metric, help_text, count)
    if "reconnects" in meters.gauges:
        help_text = "Number of reconnects to the database after an outage."
        yield CounterMetricFamily("jobforge_reconnects", help_text, meters.gauges["reconnects"]())


def counter(
    name: str, help_text: str, counts: Mapping[str, int], label: str
) -> CounterMetricFamily:
    family = CounterMetricFamily(name, help_text, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family


LabeledHistograms = Mapping[tuple[tuple[str, str], ...], Histogram]


def histogram(name: str, help_text: str, found: LabeledHistograms) -> HistogramMetricFamily:
    """Return histograms as one family; `found` has them by labels, pairs of name and value."""
    names = [label for label, _ in next(iter(found), ())]
    family = HistogramMetricFamily(name, help_text, labels=names)
    for labels, each in found.items():
        bounds = [*map(str, each.bounds), "+Inf"]
        buckets = list(zip(bounds, accumulate(each.counts), strict=True))
        family.add_metric([value for _, value in labels], buckets, each.total)
    return family


class _StaticCollector:
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def _attempts(meters: Meters) -> CounterMetricFamily:
    family = CounterMetricFamily(
        "jobforge_attempts",
        "Number of recorded attempts by outcome.",
        labels=["definition", "outcome"],
    )
    for (definition, outcome), count in meters.attempts.items():
        family.add_metric([definition, outcome], count)
    return family


def _with_definition_label(counts: Mapping[str, int]) -> tuple[Mapping[str, int], str]:
    return counts, "definition"


def _label_histograms(label: str, histograms: Mapping[str, Histogram]) -> LabeledHistograms:
    return {((label, value),): each for value, each in histograms.items()}
