"""Artifacts: large payloads and results, and files created by jobs, stored outside the database.

A store keeps bytes under names, in a folder or in S3. Everything else is common to all stores:
names (keys.py), which documents are too large for a row (payloads/size.py), the marker that refers
to a document from a row (marker.py), and the deletion of unused files (sweep.py).
"""

from jobforge.artifacts.artifact_reference import marker_from_json
from jobforge.artifacts.artifacts import Artifacts, open_artifacts
from jobforge.artifacts.keys import ArtifactKey
from jobforge.artifacts.store import Store

__all__ = ["ArtifactKey", "Artifacts", "Store", "marker_from_json", "open_artifacts"]
