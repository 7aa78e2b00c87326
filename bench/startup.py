"""Measure the startup of the command line: `make bench-cli`.

The figure is the difference in CPU time between `jobforge --help` and an interpreter that does
nothing, which is the cost of JobForge's code and its imports. The two alternate. CPU time depends
little on what else runs on the machine.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys

from sql import Figure, format_figure

_TARGET_MS = 200
# As for users: Python writes and uses bytecode files.
_ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}
_PASS = ("-c", "pass")
_HELP = ("-m", "jobforge", "--help")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    _cpu_ms(_HELP)  # writes the bytecode files
    rounds = [(_cpu_ms(_PASS), _cpu_ms(_HELP)) for _ in range(options.rounds)]
    figure = _figure(rounds)
    print(format_figure(figure))
    return 0 if figure.is_met else 1


def _figure(rounds: list[tuple[float, float]]) -> Figure:
    bare = statistics.median(passed for passed, _ in rounds)
    helped = statistics.median(helped for _, helped in rounds)
    costs = [helped - passed for passed, helped in rounds]
    return Figure(
        "jobforge --help, ms more than python -c pass",
        statistics.median(costs),
        _TARGET_MS,
        statistics.stdev(costs),
        f"{helped:.0f} ms against {bare:.0f}, {helped / bare:.1f} times as long",
        lower_is_better=True,
    )


def _cpu_ms(arguments: tuple[str, ...]) -> float:
    """Run Python with these arguments; return its CPU time in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=_ENVIRONMENT
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


if __name__ == "__main__":
    sys.exit(main())
