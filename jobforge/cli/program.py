"""How this program is called from the folder that it runs in."""

import shutil
import sys
from pathlib import Path

_NAME = "jobforge"


def program() -> str:
    """Its name alone where a shell would find it, else its path."""
    own = Path(sys.executable).with_name(_NAME)
    if not own.exists() or shutil.which(_NAME) == str(own):
        return _NAME
    return str(own.relative_to(Path.cwd())) if own.is_relative_to(Path.cwd()) else str(own)
