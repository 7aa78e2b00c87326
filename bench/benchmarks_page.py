"""Write the blocks and plots of docs/benchmarks.md from results; its prose is written manually.

A block is the text between `<!-- bench: name -->` and `<!-- end -->`, which this module replaces.
The block with the targets is in benchmark-details.md. Plots are in the folder assets/bench/. Both
are next to the page.
"""

import re
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path

import enqueue_throughput
import execution_throughput
import fairness
import pickup_latency
import resource_usage
import scaling
import start_cancel_recovery
import svg_plots
from measurements import list_points
from result_files import Facts, Results
from result_tables import (
    compare_with_targets,
    format_cell,
    format_label,
    format_number,
    render_markdown,
    render_table,
)
from sql import Figure
from workloads import FLOOR, JOBFORGE

_BLOCK = re.compile(r"(<!-- bench: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_ASSETS = Path("assets") / "bench"
_DETAILS = "benchmark-details.md"
_STEADY = tuple(pickup_latency.name_steady(2_000, share) for share in ("p50", "p99"))
_RATES = (
    execution_throughput.DRAIN,
    execution_throughput.DRAIN_WALL,
    execution_throughput.DRAIN_2,
    enqueue_throughput.BULK,
    enqueue_throughput.SINGLE,
    enqueue_throughput.CROWD,
    execution_throughput.ISOLATED,
    execution_throughput.ISOLATED_2,
)
_COSTS = (
    resource_usage.WAL_ENQUEUE,
    resource_usage.WAL_RUN,
    resource_usage.INSERTED,
    resource_usage.UPDATED,
    resource_usage.DELETED,
    resource_usage.SERVER_CPU,
    resource_usage.WORKER_CPU,
    resource_usage.WORKER_MB,
    resource_usage.IDLE,
    start_cancel_recovery.START,
)
_FLOOD = (fairness.CALM_P50, fairness.CALM_P99, fairness.FLOOD_P50, fairness.FLOOD_P99)
_ALONE = (
    fairness.BESIDE_FULL_CAP,
    fairness.UNDER_CAP,
    start_cancel_recovery.CANCEL,
    start_cancel_recovery.CANCEL_IGNORED,
    start_cancel_recovery.RECOVERY,
    resource_usage.MEMORY_EARLY,
    resource_usage.MEMORY_END,
)
_BARS = {
    "drain": ("Drain, one process: jobs per second", execution_throughput.DRAIN),
    "drain-two": ("Drain, two processes: jobs per second", execution_throughput.DRAIN_2),
    "bulk": ("Bulk enqueue: jobs per second", enqueue_throughput.BULK),
    "single": ("Single enqueue, one client: jobs per second", enqueue_throughput.SINGLE),
    "crowd": ("Single enqueue, 16 clients: jobs per second", enqueue_throughput.CROWD),
}
_LINES = {
    "backlog": (scaling.BACKLOG, "First jobs of a backlog: jobs per second", "jobs queued"),
    "history": (scaling.HISTORY, "Drain beside finished jobs: jobs per second", "jobs finished"),
    "tenants": (scaling.TENANTS, "Drain of many tenants' jobs: jobs per second", "tenants"),
    "held": (
        scaling.HELD_SNAPSHOT,
        "Drain while a snapshot is held: jobs per second",
        "jobs done since the snapshot was taken",
    ),
    "connections": (
        scaling.CONNECTIONS,
        "Claims and completions by SQL: jobs per second",
        "connections",
    ),
}


def write_page(path: Path, about: Facts, results: Results, left_out: dict[str, str]) -> None:
    """Replace the blocks of the page and of the page with the details, and write the plots."""
    assets = path.parent / _ASSETS
    assets.mkdir(parents=True, exist_ok=True)
    for name, picture in _draw_plots(results):
        (assets / f"{name}.svg").write_text(picture)
    blocks = _blocks(about, results, left_out)
    for page in filter(Path.exists, (path, path.with_name(_DETAILS))):
        page.write_text(
            _BLOCK.sub(
                lambda found: f"{found[1]}\n{blocks[found[2]]()}\n\n{found[3]}", page.read_text()
            )
        )


def _blocks(
    about: Facts, results: Results, left_out: dict[str, str]
) -> dict[str, Callable[[], str]]:
    return {
        "about": lambda: _render_about(about),
        "promises": lambda: _render_targets(compare_with_targets(results)),
        "rates": lambda: _link_plots(results, _BARS) + "\n\n" + render_table(results, _RATES),
        "pickup": lambda: _render_waits(results),
        "growth": lambda: _render_scaling(results),
        "flood": lambda: render_table(results, _FLOOD),
        "costs": lambda: render_table(results, _COSTS),
        "alone": lambda: _render_jobforge_only(results),
        "leftout": lambda: _render_left_out(about.get("left_out", {}) | left_out),
    }


def _render_about(about: Facts) -> str:
    if not about:
        return "Not measured yet."
    settings = ", ".join(f"`{name} = {value}`" for name, value in about["settings"].items())
    rows = [["System", "Version", "Settings"], ["---"] * 3]
    rows += [[name, about["versions"].get(name, ""), text] for name, text in about["sides"].items()]
    others = ", ".join(
        f"{name} {version}"
        for name, version in about["versions"].items()
        if name not in about["sides"]
    )
    note = "" if about["is_finished"] else " The run was stopped before all rounds were complete."
    return (
        f"Measured on {about['at']}: {about['machine']}. {others}.{note} "
        f"Postgres has {settings}, and its defaults otherwise: fsync and synchronous_commit are on."
        f" Up to {about['size']['rounds']} rounds.\n\n{render_markdown(rows)}"
    )


def _render_targets(figures: list[Figure]) -> str:
    rows = [["Comparison", "Result", "Target", "Met", "Spread"], ["---"] * 5]
    for figure in figures:
        sign = "≤" if figure.lower_is_better else "≥"
        note = f" ({figure.note})" if figure.note else ""
        rows.append(
            [
                format_label(figure.name),
                f"{format_number(figure.value)}{note}",
                f"{sign} {figure.target:g}",
                "✓" if figure.is_met else "✗",
                format_number(figure.spread) if figure.spread else "",
            ]
        )
    return render_markdown(rows)


def _render_waits(results: Results) -> str:
    """Render percentiles in one cell each, with the enqueue rate of a side that fell behind."""
    columns = {
        "idle": (pickup_latency.P50, pickup_latency.P95, pickup_latency.P99),
        **{
            f"{rate:,} jobs/s": tuple(
                pickup_latency.name_steady(rate, share) for share in ("p50", "p95", "p99")
            )
            for rate in pickup_latency.STEADY
        },
    }
    sides = list(dict.fromkeys(side for name in columns["idle"] for side in results.get(name, {})))
    rows = [["p50 / p95 / p99 (ms)", *columns], ["---"] * (len(columns) + 1)]
    for side in sides:
        cells = [_join_medians(results, names, side) for names in columns.values()]
        notes = ["", *(_note_rate(results, rate, side) for rate in pickup_latency.STEADY)]
        rows.append([side, *(f"{each}{note}" for each, note in zip(cells, notes, strict=True))])
    return render_markdown(rows)


def _join_medians(results: Results, names: Iterable[str], side: str) -> str:
    values = [results.get(name, {}).get(side) for name in names]
    return " / ".join(format_number(statistics.median(each)) for each in values if each)


def _note_rate(results: Results, rate: int, side: str) -> str:
    values = results.get(pickup_latency.name_reached(rate), {}).get(side)
    if not values or statistics.median(values) >= rate * 0.95:
        return ""
    return f" (enqueued {format_number(statistics.median(values))}/s)"


def _render_scaling(results: Results) -> str:
    parts = [_link_plots(results, _LINES)]
    for name, (figure, title, what) in _LINES.items():
        rows = _tabulate_points(results, figure, what)
        if rows:
            parts += [f"{title.partition(':')[0]} (`{name}`):", render_markdown(rows)]
    return "\n\n".join(parts)


def _tabulate_points(results: Results, figure: str, what: str) -> list[list[str]]:
    values = {
        side: dict(list_points(results, figure, side)) for side in _list_sides(results, figure)
    }
    counts = sorted({count for each in values.values() for count in each})
    if not counts:
        return []
    if figure == scaling.HELD_SNAPSHOT:  # the plot shows the points between
        counts = [counts[0], counts[-1]]
    head = [[f"jobs/s by number of {what}", *(svg_plots.format_tick(count) for count in counts)]]
    head.append(["---"] * len(head[0]))
    return head + [
        [side, *(format_cell(each.get(count)) for count in counts)] for side, each in values.items()
    ]


def _render_jobforge_only(results: Results) -> str:
    rows = [["JobForge only", "Result"], ["---"] * 2]
    rows += [
        [format_label(name), format_cell(results[name].get(JOBFORGE))]
        for name in _ALONE
        if name in results
    ]
    return render_markdown(rows)


def _render_left_out(left_out: dict[str, str]) -> str:
    if not left_out:
        return "All systems completed the run."
    return "\n".join(f"- {name}: {reason}" for name, reason in left_out.items())


def _link_plots(results: Results, plots: Iterable[str]) -> str:
    drawn = {name for name, _ in _draw_plots(results)}
    titles = {**_BARS, **{name: (title, below) for name, (_, title, below) in _LINES.items()}}
    return "\n\n".join(
        f"![{titles[name][0]}]({_ASSETS / name}.svg)" for name in plots if name in drawn
    )


def _draw_plots(results: Results) -> Iterable[tuple[str, str]]:
    for name, (title, figure) in _BARS.items():
        if figure in results:
            yield name, svg_plots.draw_bars(title, _build_bars(results[figure]))
    for name, (figure, title, below) in _LINES.items():
        sides = _list_sides(results, figure)
        if sides:
            series = {
                side: [
                    (place, statistics.median(values))
                    for place, values in list_points(results, figure, side)
                ]
                for side in sides
            }
            yield (
                name,
                svg_plots.draw_lines(title, below, series, log=figure != scaling.HELD_SNAPSHOT),
            )


def _list_sides(results: Results, figure: str) -> list[str]:
    """Return the sides that have points of the figure, JobForge first."""
    sides = dict.fromkeys([JOBFORGE, *(side for sides in results.values() for side in sides)])
    return [side for side in sides if list_points(results, figure, side)]


def _build_bars(sides: dict[str, list[float]]) -> list[svg_plots.Bar]:
    rows = [
        svg_plots.Bar(
            side, statistics.median(each), min(each), max(each), is_jobforge=side == JOBFORGE
        )
        for side, each in sides.items()
    ]
    return sorted(rows, key=lambda row: (row.name != FLOOR, -row.value))
