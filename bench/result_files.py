"""Result files: one JSON file per workload, written after every measurement.

With these files, an interrupted run can resume, and the page can be written without measuring.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from measurements import Measurements

Results = dict[str, dict[str, list[float]]]  # by figure, then by side
Facts = dict[str, Any]  # JSON: versions, settings, the machine

_ABOUT = "about"
_DIGITS = 4


@dataclass(slots=True)
class WorkloadResults:
    """The measurements of one workload; `done` is the number of rounds of each side."""

    workload: str
    size: dict[str, Any]
    results: Results = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def add(self, side: str, measured: Measurements) -> None:
        for figure, values in measured.items():
            rounded = [_rounded(value) for value in values]
            self.results.setdefault(figure, {}).setdefault(side, []).extend(rounded)
        self.done[side] = self.done.get(side, 0) + 1
        self.left_out.pop(side, None)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        return cls(**document)


class ResultFolder:
    """The folder with the result files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    def read_about(self) -> Facts:
        return self._read(_ABOUT) or {}

    def write_about(self, facts: Facts) -> None:
        self._write(_ABOUT, facts)

    def load(self, workload: str, size: dict[str, Any]) -> WorkloadResults:
        """Return the kept results of a workload, or empty ones if the counts were different."""
        document = self._read(workload)
        if document is None or document["size"] != json.loads(json.dumps(size)):
            return WorkloadResults(workload, size)
        return WorkloadResults.from_json(document)

    def save(self, workload_results: WorkloadResults) -> None:
        self._write(workload_results.workload, asdict(workload_results))

    def delete(self, workloads: Iterable[str]) -> None:
        for name in workloads:
            (self.path / f"{name}.json").unlink(missing_ok=True)

    def merge(self) -> tuple[Results, dict[str, str]]:
        """Return the results of all workloads, and the reasons by `side, workload` left out."""
        results: Results = {}
        left_out: dict[str, str] = {}
        for path in sorted(self.path.glob("*.json")):
            if path.stem != _ABOUT:
                workload_results = WorkloadResults.from_json(json.loads(path.read_text()))
                results |= workload_results.results
                left_out |= {
                    f"{side}, {path.stem}": why for side, why in workload_results.left_out.items()
                }
        return results, left_out

    def _read(self, name: str) -> Facts | None:
        path = self.path / f"{name}.json"
        if not path.exists():
            return None
        document: Facts = json.loads(path.read_text())
        return document

    def _write(self, name: str, document: Facts) -> None:
        path = self.path / f"{name}.json"
        new = path.with_suffix(".new")
        new.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
        new.replace(path)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
