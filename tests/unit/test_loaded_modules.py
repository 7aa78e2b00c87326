"""What a fork server and `jobforge --help` import, compared with snapshots/loaded_modules.json.

Every job process starts as a copy of the fork server, and every command waits for the imports of
the command line. To accept a change of the list: JOBFORGE_SNAPSHOTS=write pytest
tests/unit/test_loaded_modules.py
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SNAPSHOT = Path(__file__).parent / "snapshots" / "loaded_modules.json"
PREPARED = """
import sys
before = set(sys.modules)
"""
PRINTED = """
print(*sorted(sys.modules.keys() - before))
"""
PROGRAMS = {
    "fork server": """
import jobforge.worker.isolation.zygote
import jobforge.worker.isolation.probe
from jobforge import Context, JobForge
jf = JobForge()
@jf.job
def send(ctx: Context, to: str, copies: int = 1) -> bool:
    return True
""",
    "jobforge --help": """
import contextlib, io
import jobforge.__main__
from jobforge.cli import app
with contextlib.redirect_stdout(io.StringIO()):
    app(["--help"], standalone_mode=False)
""",
}
# Standard library modules that are slow to import, have hooks that run in every fork, or bring
# shared libraries, whose mappings every fork copies.
SLOW = (
    "asyncio",
    "concurrent.futures",
    "ctypes",
    "http",
    "multiprocessing",
    "random",
    "shutil",
    "ssl",
    "tempfile",
)
UNWANTED = {
    "fork server": ("asyncio", "fastapi", "httpx2", "opentelemetry", "psycopg", "pydantic"),
    "jobforge --help": ("asyncio", "fastapi", "httpx2", "opentelemetry", "psycopg", "pydantic"),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_loads_the_recorded_modules(program: str) -> None:
    loaded = _modules_of(program)
    named = [name for name in loaded if name.partition(".")[0] == "jobforge"]
    found = {
        "jobforge": named,
        "packages": sorted(_packages(loaded)),
        "standard library": [name for name in SLOW if name in loaded],
    }
    kept = json.loads(SNAPSHOT.read_text("utf-8")) if SNAPSHOT.exists() else {}
    if os.environ.get("JOBFORGE_SNAPSHOTS") == "write":
        kept[program] = found
        SNAPSHOT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    assert found == kept[program]


@pytest.mark.parametrize("program", UNWANTED)
def test_a_program_loads_no_slow_package(program: str) -> None:
    assert not set(UNWANTED[program]) & set(_modules_of(program))


def _modules_of(program: str) -> list[str]:
    run = [sys.executable, "-c", PREPARED + PROGRAMS[program] + PRINTED]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()


def _packages(loaded: list[str]) -> set[str]:
    """Return the packages that belong neither to JobForge nor to the standard library."""
    packages = {name.partition(".")[0] for name in loaded}
    return packages - {"jobforge"} - sys.stdlib_module_names
