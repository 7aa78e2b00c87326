"""Run the Python of a documentation page in a separate process (page_program.py)."""

import os
import subprocess
import sys
from pathlib import Path

from cluster import Database


def run_page(page: Path, database: Database, **settings: str) -> str:
    """Return what the page printed. An error or a warning in it fails the test."""
    run = subprocess.run(
        [sys.executable, "-W", "error", str(Path(__file__).parent / "page_program.py"), str(page)],
        env={**os.environ, **settings, "JOBFORGE_DATABASE_URL": database.url},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout
