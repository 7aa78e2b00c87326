"""Where large payloads and results lie, and what jobs make: files beside the database.

A store keeps bytes under names: a folder, or S3. What the names say (keys.py), which documents
are too large for a row (payloads/size.py), how a row then says where its document is
(marker.py), and which files nobody needs any more (sweep.py) is the same for every store.
"""

from jobforge.artifacts.artifacts import Artifacts, open_artifacts
from jobforge.artifacts.keys import ArtifactKey
from jobforge.artifacts.marker import marker_from_json
from jobforge.artifacts.store import Store

__all__ = ["ArtifactKey", "Artifacts", "Store", "marker_from_json", "open_artifacts"]
