"""Removing the folders of jobs: all their content is deleted, and the targets of links are kept."""

from pathlib import Path

import pytest

from jobforge.worker.isolation.remove_tree import remove_tree


def test_a_folder_with_write_protected_content_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    inner = folder / "modules" / "locked"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    inner.chmod(0o500)
    remove_tree(str(folder))
    assert not folder.exists()


@pytest.mark.attack("isolation")
def test_a_folder_that_is_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (kept / "inner").mkdir(parents=True)
    (kept / "inner" / "file").touch()
    (kept / "inner").chmod(0o500)
    folder = tmp_path / "job"
    folder.symlink_to(kept)
    remove_tree(str(folder))
    assert not folder.is_symlink()
    assert (kept / "inner" / "file").exists()
    assert (kept / "inner").stat().st_mode & 0o777 == 0o500
    (kept / "inner").chmod(0o700)
