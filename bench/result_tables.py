"""Tables of results, and the ratios that JobForge aims at."""

import statistics
from collections.abc import Iterable

import enqueue_throughput
import execution_throughput
import fairness
import pickup_latency
import resource_usage
import scaling
import start_cancel_recovery
from measurements import list_points
from result_files import Results
from rivals.catalog import RIVALS
from sql import Figure
from workloads import DURABLE, FLOOR, JOBFORGE

_ALL = frozenset(RIVALS)
_PYTHON = frozenset(name for name, rival in RIVALS.items() if rival.python)
_KEEPING_HISTORY = frozenset(name for name, rival in RIVALS.items() if rival.keeps_history)
_WAL = (resource_usage.WAL_ENQUEUE, resource_usage.WAL_RUN)
_LABELS = {
    "cancel of a job that ignores it": "cancel, for jobs that do not check for cancellation",
    "uncapped, beside a full cap": "jobs without a limit, next to a definition at its limit",
    "under a cap": "jobs under a concurrency limit",
    "MB at 10 %": "memory after a tenth of the jobs (MB)",
    "MB at the end": "memory after all jobs (MB)",
    " a job": " per job",
    "beside a flood": "next to a backlog",
    "pick-up": "start latency",
}
_UNITS = {" queries/s": "queries/s", "/s": "jobs/s", " ms": "ms", " s": "s"}


def compare_with_targets(results: Results) -> list[Figure]:
    """Return the figures that have a target, as far as they were measured."""
    figures = [
        _ratio_to_best(results, execution_throughput.DRAIN, _ALL, 1.2),
        _ratio_to_best(
            results, execution_throughput.DRAIN, _PYTHON, 2.5, "the fastest in Python, "
        ),
        _ratio_to_best(results, execution_throughput.DRAIN, frozenset({FLOOR}), 0.75),
        _ratio_to_best(results, execution_throughput.DRAIN_2, _ALL, 1.2),
        _ratio_to_best(results, enqueue_throughput.BULK, _ALL, 1.5),
        _ratio_to_best(results, enqueue_throughput.SINGLE, DURABLE, 1.2),
        _ratio_to_commits(results),
        _ratio_to_best(results, enqueue_throughput.CROWD, DURABLE, 1.2),
        *_pick_up(results),
        _ratio_to_best(results, execution_throughput.ISOLATED, frozenset({"rq"}), 8.0),
        _ratio_to_best(results, execution_throughput.ISOLATED, frozenset({"celery"}), 1.0),
        _ratio_last_to_first(results, scaling.BACKLOG, "queued"),
        _ratio_last_to_first(results, scaling.HISTORY, "finished"),
        _ratio_last_to_first(results, scaling.TENANTS, "tenants"),
        _ratio_last_to_first(
            results, scaling.HELD_SNAPSHOT, "jobs finished while a snapshot is held"
        ),
        _ratio_of_flood_wait(results),
        _ratio_to_least_wal(results),
        _jobforge_value(results, start_cancel_recovery.CANCEL, 500),
        _jobforge_value(results, start_cancel_recovery.RECOVERY, 60),
        _jobforge_value(results, resource_usage.IDLE, 2),
        _memory_ratio(results),
    ]
    return [figure for figure in figures if figure is not None]


def render_table(results: Results, columns: Iterable[str] | None = None) -> str:
    """Return a Markdown table: a row per side, with the median and the variation of each figure."""
    names = [name for name in columns or results if name in results]
    if not names:
        return "Not measured yet."
    sides = list(dict.fromkeys(side for name in names for side in results[name]))
    rows = [["System", *map(format_label, names)], ["---"] * (len(names) + 1)]
    rows += [
        [_emphasize(side), *(format_cell(results[name].get(side)) for name in names)]
        for side in sides
    ]
    return render_markdown(rows)


def format_label(name: str) -> str:
    """Return the name of a figure as the page shows it: with its unit in parentheses."""
    figure, comma, comparison = name.partition(", relative to")
    for written, shown in _LABELS.items():
        figure = figure.replace(written, shown)
    unit = next((unit for unit in _UNITS if figure.endswith(unit)), None)
    if unit:
        figure = f"{figure.removesuffix(unit)} ({_UNITS[unit]})"
    return f"{figure}{comma}{comparison}"


def render_markdown(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def format_cell(values: list[float] | None) -> str:
    """Format the median, and half of the range of the values in percent of the median."""
    if not values:
        return ""
    middle = statistics.median(values)
    if len(values) == 1 or not middle:
        return format_number(middle)
    return f"{format_number(middle)} ±{_spread(values) / middle * 50:.0f}%"


def format_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _emphasize(side: str) -> str:
    return f"**{side}**" if side == JOBFORGE else side


def _pick_up(results: Results) -> list[Figure | None]:
    steady = [pickup_latency.name_steady(2_000, share) for share in ("p50", "p99")]
    return [
        _ratio_to_best(results, name, DURABLE, 1.0)
        for name in (pickup_latency.P50, pickup_latency.P99, *steady)
    ]


def _ratio_to_best(
    results: Results, name: str, rivals: frozenset[str], target: float, who: str = ""
) -> Figure | None:
    """Return JobForge's figure relative to the best of these systems."""
    values = results.get(name, {})
    others = {side: statistics.median(each) for side, each in values.items() if side in rivals}
    if JOBFORGE not in values or not others:
        return None
    is_rate = _is_rate(name)
    best = (max if is_rate else min)(others, key=lambda side: others[side])
    own = statistics.median(values[JOBFORGE])
    ratios = [a / b for a, b in zip(values[JOBFORGE], values[best], strict=False)]
    return Figure(
        f"{name}, relative to {who}{best}",
        own / others[best],
        target,
        _spread(ratios),
        f"{format_number(own)} : {format_number(others[best])}",
        lower_is_better=not is_rate,
    )


def _ratio_to_commits(results: Results) -> Figure | None:
    own = results.get(enqueue_throughput.SINGLE, {}).get(JOBFORGE)
    commits = results.get(enqueue_throughput.COMMITS, {}).get(JOBFORGE)
    if not own or not commits:
        return None
    ratios = [a / b for a, b in zip(own, commits, strict=True)]
    note = f"{format_number(statistics.median(commits))} commits/s"
    name = "single enqueue, relative to a bare insert with the same driver"
    return Figure(name, statistics.median(ratios), 0.8, _spread(ratios), note)


def _ratio_last_to_first(results: Results, name: str, what: str) -> Figure | None:
    """Return the last point relative to the first, round by round."""
    series = list_points(results, name, JOBFORGE)
    if len(series) < 2:
        return None
    (start, first), (end, last) = series[0], series[-1]
    ratios = [b / a for a, b in zip(first, last, strict=False)]
    note = " → ".join(format_number(statistics.median(each)) for each in (first, last)) + " jobs/s"
    title = f"rate with {end:,.0f} {what}, relative to {start:,.0f}"
    return Figure(title, statistics.median(ratios), 0.85, _spread(ratios), note)


def _ratio_of_flood_wait(results: Results) -> Figure | None:
    calm = results.get(fairness.CALM_P99, {}).get(JOBFORGE)
    flooded = results.get(fairness.FLOOD_P99, {}).get(JOBFORGE)
    if not calm or not flooded:
        return None
    ratios = [b / a for a, b in zip(calm, flooded, strict=True)]
    note = (
        f"{format_number(statistics.median(calm))} → {format_number(statistics.median(flooded))} ms"
    )
    name = "small tenants' p99 wait beside a flood, relative to without"
    middle = statistics.median(ratios)
    return Figure(name, middle, 2.0, _spread(ratios), note, lower_is_better=True)


def _ratio_to_least_wal(results: Results) -> Figure | None:
    """Return WAL per job relative to the system with the least that keeps finished jobs."""
    if any(name not in results for name in _WAL):
        return None
    sides = set(results[_WAL[0]]) & set(results[_WAL[1]])
    total = {side: sum(statistics.median(results[name][side]) for name in _WAL) for side in sides}
    others = {side: total[side] for side in sides & _KEEPING_HISTORY}
    if JOBFORGE not in total or not others:
        return None
    best = min(others, key=lambda side: others[side])
    note = f"{format_number(total[JOBFORGE])} : {format_number(others[best])}"
    name = f"WAL bytes a job, enqueue and run, relative to {best}"
    return Figure(name, total[JOBFORGE] / others[best], 1.0, 0, note, lower_is_better=True)


def _jobforge_value(results: Results, name: str, target: float) -> Figure | None:
    values = results.get(name, {}).get(JOBFORGE)
    if not values:
        return None
    middle = statistics.median(values)
    return Figure(name, middle, target, _spread(values), "", lower_is_better=True)


def _memory_ratio(results: Results) -> Figure | None:
    early = results.get(resource_usage.MEMORY_EARLY, {}).get(JOBFORGE)
    end = results.get(resource_usage.MEMORY_END, {}).get(JOBFORGE)
    if not early or not end:
        return None
    note = f"{early[0]:.0f} → {end[0]:.0f} MB"
    name = "memory of a worker at the end, relative to after a tenth of the jobs"
    return Figure(name, end[0] / early[0], 1.1, 0, note, lower_is_better=True)


def _is_rate(name: str) -> bool:
    return name.endswith("/s")


def _spread(values: list[float]) -> float:
    return max(values) - min(values) if values else 0
