"""Compare the cost per job of the isolation levels, with empty jobs and without a database.

    sudo .venv/bin/python bench/isolation_levels.py [rounds] [user ID]

With a user ID (65534 is the user nobody), the program changes to that user, for whom the levels
`process` and `namespace` are available.
Each round runs the same number of jobs at every level, so a busy machine slows all of them alike;
the medians over the rounds are compared.
"""

import asyncio
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from integration.attack_runner import show_code
from integration.isolation_rig import IsolationRig

from jobforge.worker.isolation import proc

LEVELS = ("process", "user", "namespace", "strict")
LEVELS_WITHOUT_ROOT = ("process", "namespace")
JOBS = 100
AT_ONCE = 4
ROUNDS = 9


def measure(rig: IsolationRig) -> tuple[float, float]:
    """Return elapsed seconds per job, and CPU seconds per job of the zygote and the jobs."""

    async def run() -> None:
        slots = asyncio.Semaphore(AT_ONCE)

        async def run_one() -> None:
            async with slots:
                await rig.start("add", a=1, b=1).report()

        await asyncio.gather(*(run_one() for _ in range(JOBS)))

    cpu_before, began = cpu_s(rig), time.perf_counter()
    rig.run_in_loop(run())
    return (time.perf_counter() - began) / JOBS, (cpu_s(rig) - cpu_before) / JOBS


def cpu_s(rig: IsolationRig) -> float:
    """Return the CPU time of the zygote and of the jobs that have finished.

    Without root, the zygote of `namespace` is a child of the process that the worker started.
    """
    pids = proc.find_descendants(filter(None, [rig.runner.zygote_pid]), proc.read_table())
    stats = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids)
    ticks = sum(sum(map(int, fields[11:15])) for fields in stats)
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    show_code()
    levels: tuple[str, ...] = LEVELS
    for user in map(int, sys.argv[2:]):
        levels = LEVELS_WITHOUT_ROOT
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    rigs = {level: IsolationRig(isolation_level=level) for level in levels}
    found: dict[str, list[tuple[float, float]]] = {level: [] for level in levels}
    for number in range(rounds):
        # The order rotates, so that no level always follows the same other level.
        for level in levels[number % len(levels) :] + levels[: number % len(levels)]:
            found[level].append(measure(rigs[level]))
    for rig in rigs.values():
        rig.close()
    print("| Level | ms per job | ratio | ms of CPU per job | ratio |")
    print("| --- | ---: | ---: | ---: | ---: |")
    least = medians(found["process"])
    for level in levels:
        wall, cpu = medians(found[level])
        ratios = wall / least[0], cpu / least[1]
        print(f"| `{level}` | {wall:.2f} | {ratios[0]:.2f} | {cpu:.2f} | {ratios[1]:.2f} |")


def medians(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    walls, cpus = zip(*pairs, strict=True)
    return statistics.median(walls) * 1000, statistics.median(cpus) * 1000


if __name__ == "__main__":
    main()
