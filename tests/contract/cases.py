"""Load the cases of contract/, and compare actual results with the expected ones."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from jobforge.errors import Json

CONTRACT = Path(__file__).parents[2] / "contract"
_RANDOM_IDS = ("tenant", "tenant2", "worker", "worker2")
_FILES_WITHOUT_STEPS = {"redaction", "templates", "webhooks"}  # files without steps


@dataclass(frozen=True, slots=True)
class Case:
    """Steps that run one after another, with names of their own."""

    file: str
    name: str
    steps: list[dict[str, Json]]

    def __str__(self) -> str:
        return f"{self.file}: {self.name}"


def cases() -> Iterator[Case]:
    files = sorted(path.stem for path in (CONTRACT / "cases").glob("*.json"))
    for file in files:
        found = [] if file in _FILES_WITHOUT_STEPS else read(file)["cases"]
        yield from (Case(file, case["name"], case["steps"]) for case in found)


def read(file: str) -> dict[str, Json]:
    text = (CONTRACT / "cases" / f"{file}.json").read_text(encoding="utf-8")
    return cast("dict[str, Json]", json.loads(text))


@dataclass(slots=True)
class CaseNames:
    """The values for braces and references of one case."""

    saved: dict[str, Json] = field(default_factory=dict)
    braces: dict[str, str] = field(
        default_factory=lambda: {
            "{case}": uuid.uuid4().hex[:10],
            **{f"{{{name}}}": str(uuid.uuid4()) for name in _RANDOM_IDS},
        }
    )

    def fill(self, value: Json) -> Json:
        if isinstance(value, str):
            for brace, name in self.braces.items():
                value = value.replace(brace, name)
            return value
        if isinstance(value, list):
            return [self.fill(each) for each in value]
        if isinstance(value, dict):
            if set(value) == {"$ref"}:
                return self.saved[value["$ref"]]
            return {name: self.fill(each) for name, each in value.items()}
        return value

    def match(self, actual: Json, expected: Json, where: str = "") -> None:
        """Compare only the named members of an object; `$save` stores the actual value."""
        if isinstance(expected, dict) and set(expected) == {"$save"}:
            self.saved[expected["$save"]] = actual
        elif isinstance(expected, dict) and set(expected) != {"$ref"}:
            assert isinstance(actual, dict), f"{where}: {actual}"
            for name, each in expected.items():
                self.match(actual.get(name), each, f"{where}.{name}")
        elif isinstance(expected, list):
            assert len(actual) == len(expected), f"{where}: {actual}"
            for index, each in enumerate(expected):
                self.match(actual[index], each, f"{where}[{index}]")
        else:
            assert actual == self.fill(expected), where


def in_order(rows: list[Json]) -> list[Json]:
    """Sort rows whose order is undefined, so that they can be compared."""
    return sorted(rows, key=lambda row: str(row.get("tenant_id")))
