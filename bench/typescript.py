"""Compare the TypeScript worker with the other job systems for Node: `make bench-ts`.

The workloads are those of run.py. JobForge's program is in TypeScript (typescript.mjs), and runs
the built package. `--quick` runs tiny counts, to check that the benchmark works.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import psycopg
import rival_environments
from bench_servers import BenchError, BenchServers
from compared_side import HERE, Side
from result_files import Results
from result_tables import compare_with_targets, render_table
from rivals.catalog import RIVALS, Rival
from run import log
from run_sizes import FULL, TINY, Size
from sql import format_figure
from workloads import JOBFORGE, WORKLOADS

from jobforge.db.migrate import migrate

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

import node

NODE_RIVALS = ("graphile-worker", "pg-boss")
_FLAGS = ("--max-semi-space-size=8", "--heap-growing-percent=50")  # as jobforge-worker sets
_OURS = Rival(
    JOBFORGE, table="jobforge.jobs", unfinished_query="select count(*) from jobforge.jobs"
)


@dataclass(frozen=True, slots=True)
class TypeScript(Side):
    """JobForge's TypeScript SDK, from its folder in the repository."""

    def install(self, servers: BenchServers) -> None:
        url = servers.create_database(self.template)
        with psycopg.connect(url, autocommit=True) as conn:
            migrate(conn)
        self.run_program("install", url)

    def _program(self) -> list[str]:
        return [str(node.NODE), *_FLAGS, str(HERE / "typescript.mjs")]


def main() -> int:
    is_quick = "--quick" in sys.argv
    if node.run(node.SDK, "tsc", "-p", "tsconfig.build.json"):
        return 1
    sides: list[Side] = [TypeScript(_OURS), *map(Side, _rivals(may_install=not is_quick))]
    size = TINY if is_quick else FULL
    results: Results = {}
    with BenchServers() as servers:
        for side in sides:
            side.install(servers)
        for name in ("drain", "latency"):
            for number in range(size.rounds):
                for side in sides[:: -1 if number % 2 else 1]:
                    _measure(name, servers, side, size, results)
        _measure("memory", servers, sides[0], size, results)
    print(render_table(results))
    figures = compare_with_targets(results)
    for figure in figures:
        print(format_figure(figure))
    return int(not is_quick and not all(figure.is_met for figure in figures))


def _measure(name: str, servers: BenchServers, side: Side, size: Size, results: Results) -> None:
    log(f"… {name}: {side.name}")
    for figure, values in WORKLOADS[name].measure(servers, side, size).items():
        results.setdefault(figure, {}).setdefault(side.name, []).extend(values)


def _rivals(*, may_install: bool) -> list[Rival]:
    found = []
    for rival in (RIVALS[name] for name in NODE_RIVALS):
        try:
            if may_install and not rival_environments.is_installed(rival):
                rival_environments.install(rival)
        except rival_environments.NotInstalled as error:
            log(f"left out: {rival.name}: {error}")
        if rival_environments.is_installed(rival):
            found.append(rival)
    return found


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        log(f"✗ {error}")
        sys.exit(1)
