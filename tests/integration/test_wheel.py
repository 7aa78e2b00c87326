"""The wheel and the sdist contain the built dashboard, and the wheel contains the documentation."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = "jobforge/ui/index.html"

pytestmark = pytest.mark.skipif(
    not (ROOT / PAGE).exists(), reason="the dashboard is not built; make ui builds it"
)


def _build(folder: Path, source: Path = ROOT, **variables: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=source,
        env={**os.environ, **variables},
        timeout=100,
    )
    assert done.returncode == 0, done.stderr


def _names(folder: Path) -> set[str]:
    [wheel] = folder.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_a_wheel_built_from_an_sdist_has_the_dashboard_and_needs_no_node(tmp_path: Path) -> None:
    _build(tmp_path / "first")
    [sdist] = (tmp_path / "first").glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    [source] = tmp_path.glob("jobforge-*")
    assert not (source / "ui").exists()
    _build(tmp_path / "second", source, PATH="/nowhere")
    assert {PAGE, "jobforge/docs/quickstart.md"} <= _names(tmp_path / "first")
    assert _names(tmp_path / "second") == _names(tmp_path / "first")


def test_a_build_can_omit_the_dashboard(tmp_path: Path) -> None:
    _build(tmp_path, JOBFORGE_SKIP_UI="1")
    assert not {name for name in _names(tmp_path) if name.startswith("jobforge/ui/")}
