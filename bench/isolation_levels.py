"""What each level of isolation costs per job: empty jobs without a database, levels side by side.

    sudo .venv/bin/python bench/isolation_levels.py [rounds] [user ID]

With a user ID (65534 is nobody) it becomes that user, who has the levels `process` and `namespace`.
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

from integration.attack_runner import show_python
from integration.isolation_rig import IsolationRig

from jobforge.worker.isolation import proc

LEVELS = ("process", "user", "namespace", "strict")
LEVELS_WITHOUT_ROOT = ("process", "namespace")
JOBS = 100
AT_ONCE = 4
ROUNDS = 9


def measured(rig: IsolationRig) -> tuple[float, float]:
    """Seconds for each job, and seconds of CPU of the zygote and the jobs."""

    async def run() -> None:
        slots = asyncio.Semaphore(AT_ONCE)

        async def run_one() -> None:
            async with slots:
                await rig.start("add", a=1, b=1).report()

        await asyncio.gather(*(run_one() for _ in range(JOBS)))

    used, began = used_s(rig), time.perf_counter()
    rig.run_in_loop(run())
    return (time.perf_counter() - began) / JOBS, (used_s(rig) - used) / JOBS


def used_s(rig: IsolationRig) -> float:
    """The CPU time of the zygote and of the jobs that have ended.

    Without root, the zygote of `namespace` is a child of the process that the worker started.
    """
    pids = proc.find_descendants(filter(None, [rig.runner.zygote_pid]), proc.read_table())
    stats = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids)
    ticks = sum(sum(map(int, words[11:15])) for words in stats)
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    show_python()
    levels: tuple[str, ...] = LEVELS
    for user in map(int, sys.argv[2:]):
        levels = LEVELS_WITHOUT_ROOT
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    rigs = {level: IsolationRig(isolation_level=level) for level in levels}
    found: dict[str, list[tuple[float, float]]] = {level: [] for level in levels}
    for number in range(rounds):
        # The order changes, so that none is always behind the same one.
        for level in levels[number % len(levels) :] + levels[: number % len(levels)]:
            found[level].append(measured(rigs[level]))
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
