"""The TypeScript SDK for tests: installed once, run by the Node of PyPI."""

import importlib.util
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from cluster import LOGINS, Database

ROOT = Path(__file__).parents[2]


@cache
def node() -> ModuleType:
    """Return scripts/node.py as a module."""
    spec = importlib.util.spec_from_file_location("node", ROOT / "scripts" / "node.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["node"] = module
    spec.loader.exec_module(module)
    return module


@cache
def sdk() -> Path:
    """Return the folder of the SDK with its packages installed."""
    tools = node()
    tools.install(tools.SDK)
    return Path(tools.SDK)


def worker_command(app: str) -> list[str]:
    """Return the command of `jobforge-worker`, run from its sources for an app of
    the SDK's tests.
    """
    folder = sdk()
    return [
        *(str(node().NODE), str(folder / "src" / "cli.ts"), str(folder / "tests" / app)),
        *("--warm", "1"),
    ]


def run_node(
    *arguments: str, folder: Path | None = None, environment: dict[str, str] | None = None
) -> str:
    """Return what the program printed; fail with its output if it fails."""
    done = subprocess.run(
        [str(node().NODE), *arguments],
        cwd=folder or sdk(),
        env=node().environment() | (environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


def urls_of(database: Database) -> str:
    """Return the value of JOBFORGE_TEST_URLS: the database URL of each login."""
    logins = {login.removesuffix("_login"): database.url_as(login) for login in LOGINS}
    return json.dumps({"superuser": database.url, **logins})
