"""The marker in a row that refers to a document in the artifact store:

    {"$artifact": {"ref": "artifact:<tenant>/<day>/<folder>/payload.json", "bytes": …, "sha256": …}}

It is the only member of its object, so the first characters of the text show whether a document is
a marker.
"""

from dataclasses import dataclass
from typing import Literal

from jobforge.artifacts.keys import PREFIX, ArtifactKey, read_ref
from jobforge.errors import ArtifactNotFound, Invalid, Json
from jobforge.types.jobs import Job
from jobforge.types.jsonb import decode

ArtifactSource = Literal["payload", "result"]

_NAME = "$artifact"
MARKER_PREFIX = f'{{"{_NAME}":'


@dataclass(frozen=True, slots=True)
class Marker:
    """The location of a document, with its expected size and hash."""

    ref: str
    bytes: int
    sha256: str

    def to_json(self) -> dict[str, Json]:
        return {_NAME: {"ref": self.ref, "bytes": self.bytes, "sha256": self.sha256}}


def is_marked(text: str) -> bool:
    """Whether a document, as text, may be a marker."""
    return text.startswith(MARKER_PREFIX)


def marker_from_json(document: Json) -> Marker | None:
    """Return the marker, or None for an ordinary document."""
    if not isinstance(document, dict) or len(document) != 1:
        return None
    fields = document.get(_NAME)
    if not isinstance(fields, dict) or fields.keys() != {"ref", "bytes", "sha256"}:
        return None
    ref, size, sha256 = fields["ref"], fields["bytes"], fields["sha256"]
    if not (isinstance(ref, str) and isinstance(size, int) and isinstance(sha256, str)):
        return None
    return Marker(ref, size, sha256)


def read_artifact_ref(result: Json) -> str | None:
    """Return the reference of the file that a result names in its member `artifact`."""
    ref = result.get("artifact") if isinstance(result, dict) else None
    return ref if isinstance(ref, str) and ref.startswith(PREFIX) else None


def find_artifact_key(job: Job, of: ArtifactSource | None = None) -> ArtifactKey:
    """Return the file to show for a job: its file, its large result, or its large payload.

    Raises ArtifactNotFound, also for another tenant's artifact.
    """
    payload, result = marker_from_json(job.payload), marker_from_json(job.result)
    in_result = result.ref if result else read_artifact_ref(job.result)
    refs = {
        "payload": payload and payload.ref,
        "result": in_result,
        None: in_result or job.artifact_ref,
    }
    try:
        return read_ref(refs[of], job.tenant_id)
    except Invalid as error:
        raise ArtifactNotFound("Artifact not found") from error


def marker_from_text(text: str) -> Marker | None:
    """Like `marker_from_json`, for a document as text."""
    return marker_from_json(decode(text)) if is_marked(text) else None
