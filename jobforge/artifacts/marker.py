"""What stands in a row for a document that lies in the store:

    {"$artifact": {"ref": "artifact:<tenant>/<day>/<folder>/payload.json", "bytes": …, "sha256": …}}

Alone in its object, so that a glance at the beginning of the text is enough to see whether there is
one.
"""

from dataclasses import dataclass
from typing import Literal

from jobforge.artifacts.keys import PREFIX, Key, read_ref
from jobforge.errors import ArtifactNotFound, Invalid, Json
from jobforge.types.jobs import Job
from jobforge.types.jsonb import decode

Of = Literal["payload", "result"]

_NAME = "$artifact"
BEGINNING = f'{{"{_NAME}":'


@dataclass(frozen=True, slots=True)
class Marker:
    """Where a document lies, and what it must be."""

    ref: str
    bytes: int
    sha256: str

    def to_json(self) -> dict[str, Json]:
        return {_NAME: {"ref": self.ref, "bytes": self.bytes, "sha256": self.sha256}}


def is_marked(text: str) -> bool:
    """Whether a document, as text, may be a marker."""
    return text.startswith(BEGINNING)


def marker_in(document: Json) -> Marker | None:
    """None: the document is what it says itself."""
    if not isinstance(document, dict) or len(document) != 1:
        return None
    told = document.get(_NAME)
    if not isinstance(told, dict) or told.keys() != {"ref", "bytes", "sha256"}:
        return None
    ref, size, sha256 = told["ref"], told["bytes"], told["sha256"]
    if not (isinstance(ref, str) and isinstance(size, int) and isinstance(sha256, str)):
        return None
    return Marker(ref, size, sha256)


def artifact_made(result: Json) -> str | None:
    """The file that a result names as what its job has made."""
    made = result.get("artifact") if isinstance(result, dict) else None
    return made if isinstance(made, str) and made.startswith(PREFIX) else None


def artifact_of(job: Job, of: Of | None = None) -> Key:
    """The file to show for a job: what it made, its large result, or its large payload.

    Raises ArtifactNotFound, for another tenant's too.
    """
    payload, result = marker_in(job.payload), marker_in(job.result)
    in_result = result.ref if result else artifact_made(job.result)
    refs = {
        "payload": payload and payload.ref,
        "result": in_result,
        None: in_result or job.artifact_ref,
    }
    try:
        return read_ref(refs[of], job.tenant_id)
    except Invalid as error:
        raise ArtifactNotFound("the job has no such artifact") from error


def marker_of(text: str) -> Marker | None:
    """As `marker_in`, of a document as text."""
    return marker_in(decode(text)) if is_marked(text) else None
