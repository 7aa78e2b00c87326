"""Removing the folders of jobs, whatever is left in them. Links are removed, never followed."""

import os
import shutil
from contextlib import suppress


def remove_tree(folder: str) -> None:
    """Also what a job has forbidden to write to, as Go does with the modules that it downloads."""
    if os.path.islink(folder):  # noqa: PTH114 - rmtree refuses a link, os.walk would follow it
        with suppress(OSError):
            os.unlink(folder)  # noqa: PTH108 - as above
        return
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        _make_writable(folder)
        for parent, names, _ in os.walk(folder):
            for name in names:
                _make_writable(f"{parent}/{name}")
        shutil.rmtree(folder, ignore_errors=True)


def _make_writable(folder: str) -> None:
    with suppress(OSError):
        if not os.path.islink(folder):  # noqa: PTH114 - as above
            os.chmod(folder, 0o700)  # noqa: PTH101 - as above
