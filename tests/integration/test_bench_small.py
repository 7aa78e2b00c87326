"""The benches of the scheduler, of observability and of claims run, with tiny counts."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.parametrize(
    ("bench", "words", "target", "figures"),
    [
        ("schedules.py", [], "(target", 3),
        ("observability.py", ["--only", "metrics and logs, inline"], "(target", 1),
        ("claims.py", [], "  at most ", 8),
    ],
)
def test_the_bench_runs_every_measurement(
    bench: str, words: list[str], target: str, figures: int
) -> None:
    result = subprocess.run(
        [sys.executable, str(BENCH / bench), "--quick", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count(target) == figures
