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
    "running": ("jobforge_worker_running_jobs", "Jobs that run in this worker now."),
    "slots": ("jobforge_worker_slots", "How many jobs this worker runs at once."),
    "unsettled": ("jobforge_worker_unsettled_jobs", "Jobs that have ended and are not settled."),
    "disconnected": ("jobforge_worker_disconnected", "1 while the database does not answer."),
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
    yield counter(
        "jobforge_claimed_jobs", "Jobs that this worker claimed.", meters.claimed, "queue"
    )
    yield counter(
        "jobforge_first_claims",
        "Jobs that were claimed for the first time.",
        meters.first_claims,
        "definition",
    )
    yield _attempts(meters)
    yield counter(
        "jobforge_retries",
        "Attempts after which the job is tried again.",
        *_with_definition_label(meters.retries),
    )
    yield counter(
        "jobforge_dead_jobs",
        "Attempts after which the job is dead.",
        *_with_definition_label(meters.dead),
    )
    waits, runs = (
        _label_histograms("queue", meters.waits),
        _label_histograms("definition", meters.runs),
    )
    yield histogram("jobforge_wait_seconds", "From queued to claimed.", waits)
    yield histogram("jobforge_run_seconds", "From started to ended.", runs)
    yield histogram("jobforge_claim_seconds", "What a claim took.", {(): meters.claim_s})
    yield histogram("jobforge_claim_jobs", "Jobs in a claim.", {(): meters.claim_sizes})
    yield histogram("jobforge_settle_seconds", "What a settle took.", {(): meters.settle_s})
    yield histogram("jobforge_settle_jobs", "Jobs in a settle.", {(): meters.settle_sizes})
    for metric, help_text, count in (
        ("jobforge_lost_leases", "Jobs that this worker lost to others.", meters.lost_leases),
        ("jobforge_reaped_jobs", "Jobs of dead workers that were freed.", meters.reaped),
        ("jobforge_children_started", "Processes for jobs.", meters.children_started),
        ("jobforge_children_killed", "Those that a signal ended.", meters.children_killed),
        ("jobforge_firings", "Firings of schedules that were recorded.", meters.firings),
        ("jobforge_dispatched_events", "Events that were dispatched.", meters.events),
    ):
        yield CounterMetricFamily(metric, help_text, count)
    if "reconnects" in meters.gauges:
        help_text = "How often the database answered again after an outage."
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
        "Attempts that were settled, by how they ended.",
        labels=["definition", "outcome"],
    )
    for (definition, outcome), count in meters.attempts.items():
        family.add_metric([definition, outcome], count)
    return family


def _with_definition_label(counts: Mapping[str, int]) -> tuple[Mapping[str, int], str]:
    return counts, "definition"


def _label_histograms(label: str, histograms: Mapping[str, Histogram]) -> LabeledHistograms:
    return {((label, value),): each for value, each in histograms.items()}
