"""Scores: what all sides reached, as a table, and how ours compares with what we promise."""

import statistics
from collections.abc import Iterable

import enqueue_throughput
import execution_throughput
import fairness
import pickup_latency
import resource_usage
import scaling
import start_cancel_recovery
from measurements import points
from result_files import Results
from rivals.catalog import RIVALS
from sql import Figure
from workloads import DURABLE, FLOOR, OURS

_ALL = frozenset(RIVALS)
_PYTHON = frozenset(name for name, rival in RIVALS.items() if rival.python)
_REMEMBERING = frozenset(name for name, rival in RIVALS.items() if rival.keeps_history)
_WAL = (resource_usage.WAL_ENQUEUE, resource_usage.WAL_RUN)


def judged(results: Results) -> list[Figure]:
    """The promises, as far as they were measured."""
    figures = [
        _against(results, execution_throughput.DRAIN, _ALL, 1.2),
        _against(results, execution_throughput.DRAIN, _PYTHON, 2.5, "the fastest in Python, "),
        _against(results, execution_throughput.DRAIN, frozenset({FLOOR}), 0.75),
        _against(results, execution_throughput.DRAIN_2, _ALL, 1.2),
        _against(results, enqueue_throughput.BULK, _ALL, 1.5),
        _against(results, enqueue_throughput.SINGLE, DURABLE, 1.2),
        _of_commits(results),
        _against(results, enqueue_throughput.CROWD, DURABLE, 1.2),
        *_pick_up(results),
        _against(results, execution_throughput.ISOLATED, frozenset({"rq"}), 8.0),
        _against(results, execution_throughput.ISOLATED, frozenset({"celery"}), 1.0),
        _flat(results, scaling.BACKLOG, "queued"),
        _flat(results, scaling.HISTORY, "finished"),
        _flat(results, scaling.TENANTS, "tenants"),
        _flat(results, scaling.HELD, "jobs after a snapshot was taken and held"),
        _beside_a_flood(results),
        _leanest(results),
        _alone(results, start_cancel_recovery.CANCEL, 500),
        _alone(results, start_cancel_recovery.RECOVERY, 60),
        _alone(results, resource_usage.IDLE, 2),
        _memory(results),
    ]
    return [figure for figure in figures if figure is not None]


def table(results: Results, columns: Iterable[str] | None = None) -> str:
    """Markdown: a line for each side, the median of each figure and how far it varied."""
    names = [name for name in columns or results if name in results]
    if not names:
        return "Not measured yet."
    sides = list(dict.fromkeys(side for name in names for side in results[name]))
    rows = [["", *names], ["---"] * (len(names) + 1)]
    rows += [[_strong(side), *(cell(results[name].get(side)) for name in names)] for side in sides]
    return markdown(rows)


def markdown(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def cell(values: list[float] | None) -> str:
    """The median, and by how much the values lie above or below their middle, at most."""
    if not values:
        return ""
    middle = statistics.median(values)
    if len(values) == 1 or not middle:
        return number(middle)
    return f"{number(middle)} ±{_spread(values) / middle * 50:.0f} %"


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _strong(side: str) -> str:
    return f"**{side}**" if side == OURS else side


def _pick_up(results: Results) -> list[Figure | None]:
    steady = [pickup_latency.steady_name(2_000, share) for share in ("p50", "p99")]
    return [
        _against(results, name, DURABLE, 1.0)
        for name in (pickup_latency.P50, pickup_latency.P99, *steady)
    ]


def _against(
    results: Results, name: str, rivals: frozenset[str], target: float, who: str = ""
) -> Figure | None:
    """Ours of the best of these rivals."""
    values = results.get(name, {})
    others = {side: statistics.median(each) for side, each in values.items() if side in rivals}
    if OURS not in values or not others:
        return None
    is_rate = _is_rate(name)
    best = (max if is_rate else min)(others, key=lambda side: others[side])
    mine = statistics.median(values[OURS])
    ratios = [a / b for a, b in zip(values[OURS], values[best], strict=False)]
    return Figure(
        f"{name}, of {who}{best}",
        mine / others[best],
        target,
        _spread(ratios),
        f"{number(mine)} : {number(others[best])}",
        lower_is_better=not is_rate,
    )


def _of_commits(results: Results) -> Figure | None:
    mine = results.get(enqueue_throughput.SINGLE, {}).get(OURS)
    commits = results.get(enqueue_throughput.COMMITS, {}).get(OURS)
    if not mine or not commits:
        return None
    ratios = [a / b for a, b in zip(mine, commits, strict=True)]
    note = f"{number(statistics.median(commits))} commits/s"
    name = "single enqueue, of a bare insert with the same driver"
    return Figure(name, statistics.median(ratios), 0.8, _spread(ratios), note)


def _flat(results: Results, name: str, what: str) -> Figure | None:
    """The last point of the first, round by round."""
    grown = points(results, name, OURS)
    if len(grown) < 2:
        return None
    (start, first), (end, last) = grown[0], grown[-1]
    ratios = [b / a for a, b in zip(first, last, strict=False)]
    note = f"{number(statistics.median(first))} → {number(statistics.median(last))} jobs/s"
    title = f"rate with {end:,.0f} {what}, of that with {start:,.0f}"
    return Figure(title, statistics.median(ratios), 0.85, _spread(ratios), note)


def _beside_a_flood(results: Results) -> Figure | None:
    calm = results.get(fairness.CALM_P99, {}).get(OURS)
    flooded = results.get(fairness.FLOOD_P99, {}).get(OURS)
    if not calm or not flooded:
        return None
    ratios = [b / a for a, b in zip(calm, flooded, strict=True)]
    note = f"{number(statistics.median(calm))} → {number(statistics.median(flooded))} ms"
    name = "small tenants' p99 wait beside a flood, of that without"
    middle = statistics.median(ratios)
    return Figure(name, middle, 2.0, _spread(ratios), note, lower_is_better=True)


def _leanest(results: Results) -> Figure | None:
    """WAL of a job from enqueue to end, of the leanest rival that keeps finished jobs."""
    if any(name not in results for name in _WAL):
        return None
    sides = set(results[_WAL[0]]) & set(results[_WAL[1]])
    total = {side: sum(statistics.median(results[name][side]) for name in _WAL) for side in sides}
    others = {side: total[side] for side in sides & _REMEMBERING}
    if OURS not in total or not others:
        return None
    best = min(others, key=lambda side: others[side])
    note = f"{number(total[OURS])} : {number(others[best])}"
    name = f"WAL bytes a job, enqueue and run, of {best}"
    return Figure(name, total[OURS] / others[best], 1.0, 0, note, lower_is_better=True)


def _alone(results: Results, name: str, target: float) -> Figure | None:
    values = results.get(name, {}).get(OURS)
    if not values:
        return None
    middle = statistics.median(values)
    return Figure(name, middle, target, _spread(values), "", lower_is_better=True)


def _memory(results: Results) -> Figure | None:
    early = results.get(resource_usage.MEMORY_EARLY, {}).get(OURS)
    end = results.get(resource_usage.MEMORY_END, {}).get(OURS)
    if not early or not end:
        return None
    note = f"{early[0]:.0f} → {end[0]:.0f} MB"
    name = "memory of a worker at the end, of that after a tenth of the jobs"
    return Figure(name, end[0] / early[0], 1.1, 0, note, lower_is_better=True)


def _is_rate(name: str) -> bool:
    return name.endswith("/s")


def _spread(values: list[float]) -> float:
    return max(values) - min(values) if values else 0
