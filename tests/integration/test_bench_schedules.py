"""The bench of the scheduler runs, with tiny counts."""

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"


def test_the_bench_of_the_scheduler_runs_every_measurement() -> None:
    result = subprocess.run(
        [sys.executable, str(BENCH / "schedules.py"), "--quick"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("(target") == 3
