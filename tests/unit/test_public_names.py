"""The names that users rely on, compared with snapshots/public_names.json.

A name that moves or disappears breaks a user's code, dashboard or alert, so each change of this
list is a decision. To accept one: JOBFORGE_SNAPSHOTS=write pytest tests/unit/test_public_names.py
"""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from jobforge.api import create_app
from jobforge.config import Config

ROOT = Path(__file__).parents[2]
SNAPSHOT = Path(__file__).parent / "snapshots" / "public_names.json"
MODULES = (
    *("jobforge", "jobforge.api", "jobforge.calls", "jobforge.config", "jobforge.db"),
    *("jobforge.embedded", "jobforge.errors", "jobforge.redact", "jobforge.testing"),
    *("jobforge.integrations.asyncpg", "jobforge.integrations.django"),
    *("jobforge.integrations.psycopg", "jobforge.integrations.sqlalchemy", "jobforge.worker"),
)
LOADED_TO_FORK_JOBS = """
import sys
before = {name.partition(".")[0] for name in sys.modules}
import jobforge.worker.isolation.zygote
from jobforge import Context, JobForge
jf = JobForge()
@jf.job
def send(ctx: Context, to: str, copies: int = 1) -> bool:
    return True
loaded = {name.partition(".")[0] for name in sys.modules}
print(*sorted(loaded - before - sys.stdlib_module_names))
"""


def python_names() -> list[str]:
    """Return the public names of the modules that users import."""
    return [f"{module}.{name}" for module in MODULES for name in _public_names(module)]


def _public_names(module: str) -> list[str]:
    loaded = import_module(module)
    names: list[str] | None = getattr(loaded, "__all__", None)
    if "__dir__" in vars(loaded):  # the names are imported on first use
        names = dir(loaded)
    if names is None:
        names = [
            name
            for name, value in vars(loaded).items()
            if len(name) > 1
            and not name.startswith("_")
            and getattr(value, "__module__", None) == module
        ]
    return sorted(names)


def log_events() -> list[str]:
    """Return the names of log events: the literal first arguments of emit and similar functions."""
    return sorted({name for path in _sources() for name in _events_in(path)})


def _sources() -> Iterator[Path]:
    yield from (ROOT / "jobforge").rglob("*.py")


def _events_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else None
        called = node.func.id if isinstance(node.func, ast.Name) else called
        for keyword in node.keywords:
            if keyword.arg == "failure_event" and isinstance(keyword.value, ast.Constant):
                yield str(keyword.value.value)
        if called not in {"emit", "make_line"} or not node.args:
            continue
        for literal in ast.walk(node.args[0]):
            if isinstance(literal, ast.Constant) and isinstance(literal.value, str):
                yield literal.value


def metrics() -> list[str]:
    """Return the metrics of docs/metrics.md, which other tests compare with the exported ones."""
    page = (ROOT / "docs/metrics.md").read_text("utf-8")
    return sorted(set(re.findall(r"^\| `(jobforge_\w+)` \|", page, re.MULTILINE)))


def http_routes() -> list[str]:
    return sorted(
        f"{method.upper()} {path}"
        for path, methods in create_app(Config()).openapi()["paths"].items()
        for method in methods
    )


def error_codes() -> list[str]:
    classes = json.loads((ROOT / "contract/errors.json").read_text("utf-8"))["classes"]
    return sorted({f"{each['code']} {each['sqlstate'] or '-'}" for each in classes})


SECTIONS: dict[str, Callable[[], list[str]]] = {
    "python": python_names,
    "log events": log_events,
    "metrics": metrics,
    "http routes": http_routes,
    "error codes": error_codes,
}


@pytest.mark.parametrize("section", SECTIONS)
def test_names_that_users_rely_on_are_unchanged(section: str) -> None:
    names = SECTIONS[section]()
    assert len(names) > 10
    kept = json.loads(SNAPSHOT.read_text("utf-8")) if SNAPSHOT.exists() else {}
    if os.environ.get("JOBFORGE_SNAPSHOTS") == "write":
        kept[section] = names
        SNAPSHOT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    assert names == kept[section]


def test_a_zygote_has_loaded_few_packages() -> None:
    """Each package costs memory and page faults in every job."""
    run = [sys.executable, "-c", LOADED_TO_FORK_JOBS]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["jobforge", "orjson", "pydantic_core", "typing_extensions"]
