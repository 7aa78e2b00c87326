"""The name of an artifact: `<tenant>/<day>/<folder>/<file>`, in a job's row `artifact:<name>`.

The tenant comes first, so that all of a tenant's go by one prefix. The day is that of the putting.
The folder has the id of the job that made what is in it; a payload is put before its job has an id,
into a folder of its own.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from uuid import UUID

from jobforge.errors import Invalid

PREFIX = "artifact:"

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_DAY = r"\d{4}-\d{2}-\d{2}"
# No file begins with a dot and none has two in a row: no name leads anywhere else.
_FILE = re.compile(r"[a-z0-9_-]{1,64}(?:\.[a-z0-9_-]{1,64}){0,3}")
_FOLDER = re.compile(rf"({_UUID})/({_DAY})/({_UUID})")
_PATH = re.compile(rf"({_FOLDER.pattern})/({_FILE.pattern})")


@dataclass(frozen=True, slots=True)
class ArtifactKey:
    tenant_id: UUID
    day: date
    folder: UUID
    file: str

    def __post_init__(self) -> None:
        if _FILE.fullmatch(self.file) is None:
            raise Invalid(f"{self.file[:100]!r} is no name of an artifact", field="artifact")

    @property
    def path(self) -> str:
        return f"{self.tenant_id}/{self.day.isoformat()}/{self.folder}/{self.file}"

    @property
    def ref(self) -> str:
        """As `artifact_ref` has it."""
        return PREFIX + self.path


def new_key(tenant_id: UUID, folder: UUID, file: str) -> ArtifactKey:
    return ArtifactKey(tenant_id, datetime.now(UTC).date(), folder, file)


def read_ref(ref: object, tenant_id: UUID) -> ArtifactKey:
    """Invalid when it names no artifact, or another tenant's."""
    found = _PATH.fullmatch(ref.removeprefix(PREFIX)) if isinstance(ref, str) else None
    if found is None or not str(ref).startswith(PREFIX):
        raise Invalid("it names no artifact", field="artifact_ref")
    _, tenant, day, folder, file = found.groups()
    if tenant != str(tenant_id):
        raise Invalid("the artifact is not of this tenant", field="artifact_ref")
    return ArtifactKey(tenant_id, _day(day), UUID(folder), file)


def check_path(path: str) -> str:
    """The path, if a Key could have made it; for stores, which believe nobody."""
    if _PATH.fullmatch(path) is None:
        raise Invalid(f"{path[:100]!r} is no name of an artifact", field="artifact")
    return path


def check_prefix(prefix: str) -> str:
    """Of one tenant, or of one folder of it."""
    if re.fullmatch(_UUID, prefix) is None and _FOLDER.fullmatch(prefix) is None:
        raise Invalid(f"{prefix[:100]!r} is no folder of artifacts", field="artifact")
    return prefix


def parse_folder(path: str) -> str | None:
    """Of something found in a store; None if it is none of ours."""
    found = _PATH.fullmatch(path)
    return found and found[1]


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise Invalid("it names no artifact", field="artifact_ref") from error
