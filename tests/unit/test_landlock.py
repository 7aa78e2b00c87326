"""What a process in a Landlock domain can access, each case tested in a separate process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobforge.worker.isolation import landlock

pytestmark = pytest.mark.skipif(not landlock.is_available(), reason="needs Landlock")

BEGIN = """
import os, sys
from pathlib import Path
from jobforge.worker.isolation import landlock, limits
landlock.protectable = list  # root may write everywhere
limits.set_no_new_privileges()
folder = Path(sys.argv[1])
domain = landlock.Landlock([folder / "secret"])
def inside(act):
    domain.prepare()
    if os.fork() == 0:
        domain.enter(has_mounts=False)
        try:
            print(act(), flush=True)
        except OSError as error:
            print(type(error).__name__, flush=True)
        os._exit(0)
    os.wait()
"""


def _run_code(folder: Path, code: str) -> list[str]:
    run = [sys.executable, "-c", BEGIN + code, str(folder)]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("secret", "other"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_a_secret_file_cannot_be_read_and_the_file_next_to_it_can(folder: Path) -> None:
    code = """
inside((folder / "secret").read_text)
inside((folder / "other").read_text)
inside(lambda: sorted(os.listdir(folder))[0])
"""
    assert _run_code(folder, code) == ["PermissionError", "other", "other"]


def test_a_link_to_a_secret_file_does_not_bypass_the_protection(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    code = """
def link():
    os.link(folder / "secret", folder / "elsewhere" / "link")
    return (folder / "elsewhere" / "link").read_text()
def move():
    return (folder / "secret").rename(folder / "elsewhere" / "moved").read_text()
inside(link)
inside(move)
"""
    assert _run_code(folder, code) == ["OSError", "OSError"]


def test_a_secret_file_behind_links_cannot_be_read_by_any_name(folder: Path) -> None:
    (folder / "run").mkdir()
    (folder / "run" / "data").mkdir()
    (folder / "run" / "data" / "secret").write_text("secret")
    (folder / "link").symlink_to("run")
    (folder / "link" / "secret").symlink_to("data/secret")
    code = """
domain = landlock.Landlock([folder / "link" / "secret"])
for name in ("link/secret", "run/secret", "run/data/secret", "link/data/secret", "other"):
    inside((folder / name).read_text)
"""
    assert _run_code(folder, code) == [*["PermissionError"] * 4, "other"]


def test_files_created_in_the_meantime_are_readable_in_the_next_domain(folder: Path) -> None:
    code = """
domain.prepare()
(folder / "new").write_text("new")
inside((folder / "new").read_text)
(folder / "rotated").write_text("rotated")
(folder / "rotated").rename(folder / "secret")
inside((folder / "secret").read_text)
"""
    assert _run_code(folder, code) == ["new", "PermissionError"]


def test_files_can_still_be_moved_between_folders(folder: Path) -> None:
    for name in ("a", "b"):
        (folder / name).mkdir()
    (folder / "a" / "file").touch()
    code = """
inside(lambda: (folder / "a" / "file").rename(folder / "b" / "file").name)
domain = landlock.Landlock([])
inside(lambda: (folder / "b" / "file").rename(folder / "a" / "file").name)
"""
    assert _run_code(folder, code) == ["file", "file"]


def test_only_files_in_folders_that_jobs_cannot_write_to_are_protected(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch()
    assert landlock.protectable([file]) == []
    fixed = Path("/etc/passwd")
    assert landlock.protectable([fixed]) == ([] if os.getuid() == 0 else [fixed])
