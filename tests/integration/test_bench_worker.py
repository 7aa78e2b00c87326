"""The bench of the worker runs, with tiny counts: our side, and each rival that is installed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"
SHARED = {"program", "table"}
RIVALS = sorted(
    path.stem
    for path in (BENCH / "rivals").iterdir()
    if path.suffix in {".py", ".mjs"} and path.stem not in SHARED
)
WITH_ISOLATED_JOBS = {"celery", "rq"}


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    result = subprocess.run(
        [sys.executable, str(BENCH / "worker.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def measure(folder: Path, *arguments: str) -> dict[str, Any]:
    file = folder / "bench.json"
    run("--quick", "--no-install", "--json", str(file), *arguments)
    document: dict[str, Any] = json.loads(file.read_text())
    assert document["left_out"] == {}
    return document


def test_every_rival_has_a_version_and_a_program() -> None:
    listed = [line.split()[0] for line in run("--list").stdout.splitlines()]
    assert sorted(listed) == RIVALS


@pytest.mark.timeout(300)
def test_our_side_runs_every_workload(tmp_path: Path) -> None:
    results = measure(tmp_path, "--rivals", "")["results"]
    assert all(list(sides) == ["jobforge"] for sides in results.values())
    assert len(results) == 15
    assert all(value > 0 for sides in results.values() for value in sides["jobforge"])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rival", RIVALS)
def test_a_rival_runs_beside_us(rival: str, tmp_path: Path) -> None:
    if rival not in installed():
        pytest.skip(f"{rival} is not installed; bench/worker.py installs it")
    workloads = ["drain", "single", "latency"]
    if rival in WITH_ISOLATED_JOBS:
        workloads.append("isolated")
    document = measure(tmp_path, *workloads, "--rivals", rival)
    assert rival in document["versions"]
    for figure in ("drain/s", "single enqueue/s", "pick-up p50 ms"):
        assert set(document["results"][figure]) == {"jobforge", rival}


def installed() -> list[str]:
    """The names of the rivals whose environments are there."""
    lines = run("--list").stdout.splitlines()
    return [line.split()[0] for line in lines if line.endswith(": installed")]
