"""Scores: what all sides reached, as a table, and how ours compares with what we promise."""

import statistics

import workload
from rivals.table import RIVALS
from sql import Figure

Results = dict[str, dict[str, list[float]]]  # by figure, then by side

OURS = "jobforge"
_ALL = frozenset(RIVALS)
_DURABLE = frozenset(name for name, rival in RIVALS.items() if not rival.key)


def judged(results: Results) -> list[Figure]:
    """The promises, as far as they were measured."""
    figures = [
        _against(results, workload.DRAIN, _ALL, 1.1),
        _against(results, workload.DRAIN_2, _ALL, 1.1),
        _against(results, workload.BULK, _ALL, 1.0),
        _against(results, workload.SINGLE, _DURABLE, 1.0),
        _of_commits(results),
        _against(results, workload.P50, _DURABLE, 1.0),
        _against(results, workload.P99, _DURABLE, 1.0),
        _against(results, workload.ISOLATED, frozenset({"rq"}), 8.0),
        _against(results, workload.ISOLATED, frozenset({"celery"}), 1.0),
        _alone(results, workload.CANCEL, 500),
        _alone(results, workload.IDLE, 2),
        _growth(results),
    ]
    return [figure for figure in figures if figure is not None]


def table(results: Results) -> str:
    """Markdown: a line for each side, the median of each figure, `*` where it varied by 20 %."""
    columns = list(results)
    sides = list(dict.fromkeys(side for values in results.values() for side in values))
    rows = [["", *columns], ["---"] * (len(columns) + 1)]
    rows += [[side, *(_cell(results[name].get(side), name) for name in columns)] for side in sides]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def summary(name: str, values: list[float]) -> float:
    """The median, or what only one job in a hundred took longer than."""
    if name != workload.P99:
        return statistics.median(values)
    return sorted(values)[min(len(values) - 1, round(len(values) * 0.99))]


def _against(results: Results, name: str, rivals: frozenset[str], target: float) -> Figure | None:
    """Ours of the best of these rivals."""
    values = results.get(name, {})
    others = {side: summary(name, each) for side, each in values.items() if side in rivals}
    if OURS not in values or not others:
        return None
    is_rate = _is_rate(name)
    best = (max if is_rate else min)(others, key=lambda side: others[side])
    mine = summary(name, values[OURS])
    ratios = [a / b for a, b in zip(values[OURS], values[best], strict=False)]
    return Figure(
        f"{name}, of {best}'s",
        mine / others[best],
        target,
        _spread(ratios) if is_rate else 0,
        f"{_number(mine)} : {_number(others[best])}",
        lower_is_better=not is_rate,
    )


def _of_commits(results: Results) -> Figure | None:
    mine = results.get(workload.SINGLE, {}).get(OURS)
    commits = results.get(workload.COMMITS, {}).get(OURS)
    if not mine or not commits:
        return None
    ratios = [a / b for a, b in zip(mine, commits, strict=True)]
    note = f"{_number(statistics.median(commits))} commits/s"
    name = "single enqueue, of a bare insert with the same driver"
    return Figure(name, statistics.median(ratios), 0.8, _spread(ratios), note)


def _alone(results: Results, name: str, target: float) -> Figure | None:
    values = results.get(name, {}).get(OURS)
    if not values:
        return None
    middle = statistics.median(values)
    return Figure(name, middle, target, _spread(values), "", lower_is_better=True)


def _growth(results: Results) -> Figure | None:
    early = results.get(workload.MEMORY_EARLY, {}).get(OURS)
    end = results.get(workload.MEMORY_END, {}).get(OURS)
    if not early or not end:
        return None
    note = f"{early[0]:.0f} → {end[0]:.0f} MB"
    name = "memory of a worker at the end, of that after a tenth of the jobs"
    return Figure(name, end[0] / early[0], 1.1, 0, note, lower_is_better=True)


def _is_rate(name: str) -> bool:
    return name.endswith("/s")


def _spread(values: list[float]) -> float:
    return max(values) - min(values)


def _cell(values: list[float] | None, name: str) -> str:
    if not values:
        return ""
    middle = summary(name, values)
    return _number(middle) + ("*" if _is_rate(name) and _spread(values) > 0.2 * middle else "")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
