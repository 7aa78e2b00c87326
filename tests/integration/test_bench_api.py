"""The bench of the HTTP API runs, with tiny counts, and its live stream has no errors."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.timeout(300)
def test_the_bench_of_the_http_api_runs_every_workload(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    result = subprocess.run(
        [sys.executable, str(BENCH / "api.py"), "--quick", "--json", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    figures = json.loads(file.read_text())["figures"]
    # It prints ten figures; whether a duration meets its target says nothing at this size.
    assert result.stdout.count("(target") == len(figures) == 10
    faults = {figure["name"]: figure["value"] for figure in figures if figure["target"] == 0}
    assert list(faults.values()) == [0, 0, 0]
    assert all(figure["value"] > 0 for figure in figures if figure["target"] > 0)
