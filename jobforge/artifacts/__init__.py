"""Where large payloads and results lie, and what jobs make: files beside the database.

A store keeps bytes under names: a folder, or S3. What the names say (key.py), which documents are
too large for a row (size.py), how a row then says where its document is (document.py), and which
files nobody needs any more (sweep.py) is the same for every store.
"""

from jobforge.artifacts.artifacts import Artifacts, open_artifacts
from jobforge.artifacts.document import marker_in
from jobforge.artifacts.key import Key
from jobforge.artifacts.store import Store

__all__ = ["Artifacts", "Key", "Store", "marker_in", "open_artifacts"]
