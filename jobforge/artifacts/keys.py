"""Names of artifacts: `<tenant>/<day>/<folder>/<file>`; rows refer to them as `artifact:<name>`.

The tenant comes first, so one prefix covers all artifacts of a tenant. The day is the day of the
upload. The folder is the ID of the job that created its files. A payload is stored before its job
has an ID, so it gets a random folder.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from uuid import UUID

from jobforge.errors import Invalid

PREFIX = "artifact:"

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_DAY = r"\d{4}-\d{2}-\d{2}"
# No file name starts with a dot or contains two in a row, so no name escapes its folder.
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
            raise Invalid(f"{self.file[:100]!r} is not a valid artifact name", field="artifact")

    @property
    def path(self) -> str:
        return f"{self.tenant_id}/{self.day.isoformat()}/{self.folder}/{self.file}"

    @property
    def ref(self) -> str:
        """The name with its prefix, as in the column artifact_ref."""
        return PREFIX + self.path


def new_key(tenant_id: UUID, folder: UUID, file: str) -> ArtifactKey:
    return ArtifactKey(tenant_id, datetime.now(UTC).date(), folder, file)


def read_ref(ref: object, tenant_id: UUID) -> ArtifactKey:
    """Parse a reference; raise Invalid if it is malformed or belongs to another tenant."""
    match = _PATH.fullmatch(ref.removeprefix(PREFIX)) if isinstance(ref, str) else None
    if match is None or not str(ref).startswith(PREFIX):
        raise Invalid("it is not a valid artifact reference", field="artifact_ref")
    _, tenant, day, folder, file = match.groups()
    if tenant != str(tenant_id):
        raise Invalid("the artifact belongs to another tenant", field="artifact_ref")
    return ArtifactKey(tenant_id, _day(day), UUID(folder), file)


def check_path(path: str) -> str:
    """Return the path if ArtifactKey can produce it; raise Invalid. Stores validate every path."""
    if _PATH.fullmatch(path) is None:
        raise Invalid(f"{path[:100]!r} is not a valid artifact name", field="artifact")
    return path


def check_prefix(prefix: str) -> str:
    """Return the prefix if it is that of one tenant or one folder; raise Invalid."""
    if re.fullmatch(_UUID, prefix) is None and _FOLDER.fullmatch(prefix) is None:
        raise Invalid(f"{prefix[:100]!r} is not a valid artifact folder", field="artifact")
    return prefix


def parse_folder(path: str) -> str | None:
    """Return the folder of a path in a store; None for a path that is not an artifact."""
    match = _PATH.fullmatch(path)
    return match and match[1]


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise Invalid("it is not a valid artifact reference", field="artifact_ref") from error
