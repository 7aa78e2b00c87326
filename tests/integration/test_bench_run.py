"""The comparison runs, with tiny counts: our side, the floor, and each rival that is installed."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
SHARED = {"catalog", "side_program"}
RIVALS = sorted(
    path.stem
    for path in (BENCH / "rivals").iterdir()
    if path.suffix in {".py", ".mjs"} and path.stem not in SHARED
)
# One of each family, and two of which one was measured before: a run goes on with what is kept.
MEASURED = {"drain", "single", "latency", "cost", "backlog", "flood"}
KEPT = {"drain_by_two": {"2 processes/s": {"jobforge": [2000.0], "floor": [3000.0]}}}


def run(*arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, str(BENCH / "run.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def kept(folder: Path) -> dict[str, Any]:
    """What each workload has measured, by its name."""
    files = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    del files["about"]
    assert {name: file["left_out"] for name, file in files.items() if file.get("left_out")} == {}
    return {name: file["results"] for name, file in files.items()}


def keep_before(folder: Path) -> None:
    size = json.loads(run("--size", "tiny", "--show-size"))
    done = {"jobforge": 1, "floor": 1}
    for name, results in KEPT.items():
        document = {"workload": name, "size": size, "results": results, "done": done}
        (folder / f"{name}.json").write_text(json.dumps(document))


def test_every_rival_has_a_version_and_a_program() -> None:
    listed = [line.split()[0] for line in run("--list").splitlines()]
    assert sorted(listed) == RIVALS


@pytest.mark.timeout(600)
def test_our_side_runs_and_the_page_is_written(tmp_path: Path) -> None:
    keep_before(tmp_path)
    page = Path(shutil.copy(ROOT / "docs" / "benchmarks.md", tmp_path))
    choice = ("--rivals", "", "--only", ",".join({*MEASURED, *KEPT}))
    run("--size", "tiny", "--results", str(tmp_path), "--page", str(page), *choice)
    workloads = kept(tmp_path)
    assert set(workloads) == {*MEASURED, *KEPT}
    assert {name: workloads[name] for name in KEPT} == KEPT
    for name, results in workloads.items():
        assert results, name
        assert all(value >= 0 for sides in results.values() for value in sides["jobforge"])
    assert set(workloads["drain"]["drain/s"]) == {"jobforge", "floor"}
    plots = list((tmp_path / "assets" / "bench").iterdir())
    assert {plot.stem for plot in plots} == {"backlog", "drain", "drain-two", "single"}
    for plot in plots:
        assert ET.parse(plot).getroot().tag.endswith("svg")  # noqa: S314 - our own file
        assert f"assets/bench/{plot.name}" in page.read_text()


@pytest.mark.timeout(600)
def test_each_rival_runs_beside_us(tmp_path: Path, subtests: pytest.Subtests) -> None:
    found = installed()
    if found:
        choice = ("--only", "drain,crowd,steady_500,isolated", "--rivals", ",".join(found))
        run("--size", "tiny", "--no-install", "--results", str(tmp_path), *choice)
    results = {name: figures for each in kept_or_none(tmp_path) for name, figures in each.items()}
    for rival in RIVALS:
        with subtests.test(rival):
            if rival not in found:
                pytest.skip(f"{rival} is not installed; bench/run.py installs it")
            for figure in ("drain/s", "16 clients/s", "at 500 jobs per second, p50 ms"):
                assert results[figure][rival][0] > 0


def kept_or_none(folder: Path) -> list[dict[str, Any]]:
    return list(kept(folder).values()) if (folder / "about.json").exists() else []


def installed() -> list[str]:
    """The names of the rivals whose environments are there."""
    lines = run("--list").splitlines()
    return [line.split()[0] for line in lines if line.endswith(": installed")]
