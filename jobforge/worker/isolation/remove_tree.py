"""Remove the folders of jobs with all contents. Symbolic links are removed, never followed."""

import os
from contextlib import suppress


def remove_tree(folder: str) -> None:
    """Remove the folder, including read-only subfolders, such as those of Go's module cache."""
    if os.path.islink(folder):  # noqa: PTH114 - rmtree rejects a link, os.walk follows it
        with suppress(OSError):
            os.unlink(folder)  # noqa: PTH108 - paths are strings here
        return
    import shutil  # noqa: PLC0415 - kept out of zygotes (docs/decisions/0020)

    shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        _make_writable(folder)
        for parent, names, _ in os.walk(folder):
            for name in names:
                _make_writable(f"{parent}/{name}")
        shutil.rmtree(folder, ignore_errors=True)


def _make_writable(folder: str) -> None:
    with suppress(OSError):
        if not os.path.islink(folder):  # noqa: PTH114 - chmod follows a link
            os.chmod(folder, 0o700)  # noqa: PTH101 - paths are strings here
