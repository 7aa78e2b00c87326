"""Counters and histograms of one process since it started.

prometheus.py formats them. All of them are updated in the event loop's thread, in batches.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from jobforge.types.jobs import ClaimedJob

DURATION_BUCKETS_S = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    30,
    60,
    300,
    1800,
    3600,
)
CALL_DURATION_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
BATCH_SIZE_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)

_queue_of: Callable[[ClaimedJob], str] = attrgetter("queue")
_wait_of: Callable[[ClaimedJob], float] = attrgetter("waited_s")


class Histogram:
    """Number of values per bucket; the last bucket is for values above all bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def add_all(self, values: Iterable[float]) -> None:
        """Add many values, much faster than one `add` for each."""
        ordered = sorted(values)
        below = 0
        for index, bound in enumerate(self.bounds):
            until = bisect_right(ordered, bound, below)
            self.counts[index] += until - below
            below = until
        self.counts[-1] += len(ordered) - below
        self.total += sum(ordered)

    def replace_zero(self, value: float) -> None:
        """Move one observation from the zero bucket to `value`."""
        self.counts[0] -= 1
        self.add(value)


class Meters:
    """Metrics of a worker, of its scheduler, or of a separate scheduler.

    `gauges` has functions by name; each returns the current value when metrics are read.
    """

    def __init__(self) -> None:
        self.gauges: dict[str, Callable[[], float]] = {}
        self.claim_s = Histogram(CALL_DURATION_BUCKETS_S)
        self.claim_sizes = Histogram(BATCH_SIZE_BUCKETS)
        self.settle_s = Histogram(CALL_DURATION_BUCKETS_S)
        self.settle_sizes = Histogram(BATCH_SIZE_BUCKETS)
        self.claimed: Counter[str] = Counter()
        self.first_claims: Counter[str] = Counter()
        self.waits: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(DURATION_BUCKETS_S))
        self.runs: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(DURATION_BUCKETS_S))
        self.attempts: Counter[tuple[str, str]] = Counter()
        self.retries: Counter[str] = Counter()
        self.dead: Counter[str] = Counter()
        self.lost_leases = 0
        self.reaped = 0
        self.children_started = 0
        self.children_killed = 0
        self.firings = 0
        self.events = 0

    def record_claim(self, size: int, took_s: float) -> None:
        """Count a claim that has returned."""
        self.claim_s.add(took_s)
        self.claim_sizes.add(size)

    def record_received(self, jobs: Sequence[ClaimedJob]) -> None:
        """Count the jobs of a claim, before they start."""
        self.first_claims.update([job.definition for job in jobs if job.attempt == 1])
        queues = set(map(_queue_of, jobs))
        for queue in queues:
            queue_jobs = jobs if len(queues) == 1 else [job for job in jobs if job.queue == queue]
            self.claimed[queue] += len(queue_jobs)
            self.waits[queue].add_all(map(_wait_of, queue_jobs))

    def record_settle(self, size: int, took_s: float) -> None:
        """Count a call that has settled jobs."""
        self.settle_s.add(took_s)
        self.settle_sizes.add(size)

    def record_ended(self, outcome: str, ended: Sequence[tuple[ClaimedJob, object, float]]) -> None:
        """Count settled attempts with one outcome; each item has its duration in seconds."""
        for definition, times in Counter([each[0].definition for each in ended]).items():
            self.attempts[definition, outcome] += times
            self.runs[definition].add(0.0, times)
        # Most short jobs have a duration of 0, so only the others are moved from the zero bucket.
        for job, _, seconds in [each for each in ended if each[2]]:
            self.runs[job.definition].replace_zero(seconds)
