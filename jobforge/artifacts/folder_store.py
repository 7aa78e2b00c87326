"""Stores artifacts as files in a folder, which all processes that use them must share.

A file is written under a temporary name and renamed once it is complete and synced to disk. So a
killed process leaves no partial file under the final name. Only the owner can read the files.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID, uuid4

from jobforge.artifacts.keys import check_path, check_prefix, parse_folder
from jobforge.errors import ArtifactNotFound, ArtifactUnavailable

_PIECE = 256 * 1024
_INCOMING = ".incoming"
_IDENTITY = ".store-id"
_ABANDONED_S = 86_400.0
# The sweep may delete an empty folder after its creation and before a file is renamed into it.
_RENAME_ATTEMPTS = 3


class FolderStore:
    """A Store in a local or shared folder."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    def identity(self) -> UUID:
        file = self._root / _IDENTITY
        with _translate_errors(_IDENTITY):
            if not file.exists():
                self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
                aside = self._root / f"{_IDENTITY}.{uuid4().hex}"
                _write(aside, str(uuid4()).encode())
                with suppress(FileExistsError):  # another process was first
                    file.hardlink_to(aside)  # atomic, and never replaces an existing file
                aside.unlink()
            return _parse_identity(file.read_text())

    def put(self, path: str, data: bytes | Iterable[bytes]) -> None:
        target = self._root / check_path(path)
        with _translate_errors(path):
            incoming = self._root / _INCOMING
            incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
            aside = incoming / uuid4().hex
            try:
                _write(aside, data)
                self._rename(aside, target)
            except BaseException:
                aside.unlink(missing_ok=True)
                raise

    def open(self, path: str) -> Iterator[bytes]:
        with (
            _translate_errors(path),
            (self._root / check_path(path)).open("rb", buffering=0) as file,
        ):
            while piece := file.read(_PIECE):
                yield piece

    def size(self, path: str) -> int:
        with _translate_errors(path):
            return (self._root / check_path(path)).stat().st_size

    def delete_prefix(self, prefix: str) -> bool:
        from shutil import rmtree  # noqa: PLC0415 - kept out of job processes (docs/decisions/0020)

        target = self._root / check_prefix(prefix)
        with _translate_errors(prefix):
            existed = target.exists()
            with suppress(FileNotFoundError):
                rmtree(target)
            self._prune(target.parent)
        return existed

    def list_folders(self) -> Iterator[str]:
        self._clear_incoming()
        for tenant in _names(self._root):
            for day in _names(self._root / tenant):
                for folder in _names(self._root / tenant / day):
                    found = parse_folder(f"{tenant}/{day}/{folder}/_")
                    if found is not None:
                        yield found

    def sign_url(self, path: str, seconds: float) -> None:
        """Return None: no server serves the files of a folder."""

    def _rename(self, aside: Path, target: Path) -> None:
        for left in reversed(range(_RENAME_ATTEMPTS)):
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                aside.replace(target)
                _sync(target.parent)
            except FileNotFoundError:
                if not left:
                    raise
            else:
                return

    def _prune(self, folder: Path) -> None:
        """Remove the folder and its parents while they are empty."""
        with suppress(OSError):  # the folder is not empty
            while folder != self._root:
                folder.rmdir()
                folder = folder.parent

    def _clear_incoming(self) -> None:
        before = time.time() - _ABANDONED_S
        for name in _names(self._root / _INCOMING):
            aside = self._root / _INCOMING / name
            with suppress(OSError):
                if aside.stat().st_mtime < before:
                    aside.unlink()


def _parse_identity(text: str) -> UUID:
    try:
        return UUID(text.strip())
    except ValueError:
        raise ArtifactUnavailable(
            f"The file {_IDENTITY} of the artifact folder does not contain an ID"
        ) from None


def _write(path: Path, data: bytes | Iterable[bytes]) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file:
        for piece in [data] if isinstance(data, bytes) else data:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Sync the folder to disk.

    A job that refers to the file is committed next; after a power loss, its file must exist.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - only names are needed
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ArtifactNotFound(f"Artifact '{path}' not found") from error
    except OSError as error:
        raise ArtifactUnavailable(
            f"The artifact folder is unavailable: {error.strerror or error}"
        ) from error
