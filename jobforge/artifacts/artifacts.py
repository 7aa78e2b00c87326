"""Reads and writes artifacts in the configured store: large documents of jobs, and their files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from jobforge.artifacts.artifact_reference import Marker
from jobforge.artifacts.folder_store import FolderStore
from jobforge.artifacts.keys import ArtifactKey, new_key, read_ref
from jobforge.artifacts.store import Store
from jobforge.errors import (
    ArtifactNotFound,
    ArtifactUnavailable,
    NoArtifactStore,
    PayloadTooLarge,
)
from jobforge.payloads.size import PAYLOAD_LIMIT, find_large_payloads
from jobforge.types.jobs import JobRequest

if TYPE_CHECKING:
    from jobforge.config import Config

_PAYLOAD = "payload.json"
_HOW = "set artifacts (JOBFORGE_ARTIFACTS)"
_HINT = "Set artifacts (JOBFORGE_ARTIFACTS) to a folder or a bucket that all processes share"


class Artifacts:
    """The artifact store of a configuration, opened on first use.

    `limit` is the maximum size in bytes for writes, and for reads of whole documents. Without a URL
    there is no store, so writes and reads fail.
    """

    def __init__(self, url: str | None, *, limit: int, credentials: Mapping[str, str]) -> None:
        self._url = url
        self._credentials = credentials
        self.limit = limit

    @property
    def is_configured(self) -> bool:
        return self._url is not None

    @property
    def location(self) -> str | None:
        """The folder or bucket as a label, without options and credentials."""
        if self._url is None or self._url.startswith("s3://"):
            return self._url and self._url.partition("?")[0]
        return str(Path(self._url).absolute())

    @cached_property
    def store(self) -> Store:
        """The store; raises ArtifactUnavailable when none is configured."""
        if self._url is None:
            raise ArtifactUnavailable(f"No artifact store is configured; {_HOW}")
        if not self._url.startswith("s3://"):
            return FolderStore(Path(self._url))
        from jobforge.artifacts.s3_store import BucketStore  # noqa: PLC0415 - obstore is an extra

        return BucketStore(self._url, self._credentials)

    def put(self, key: ArtifactKey, data: bytes | Iterable[bytes]) -> Marker:
        """Store the data and return its marker.

        Raises PayloadTooLarge before the artifact becomes visible, and NoArtifactStore.
        """
        if not self.is_configured:
            raise NoArtifactStore(
                f"{key.file} requires an artifact store, and none is configured; {_HOW}", hint=_HINT
            )
        stream = _MeasuredStream([data] if isinstance(data, bytes) else data, self.limit)
        if isinstance(data, bytes):
            for _ in stream:
                pass
            self.store.put(key.path, data)
        else:
            self.store.put(key.path, stream)
        return Marker(key.ref, stream.size, stream.digest.hexdigest())

    def read(self, marker: Marker, tenant_id: UUID) -> bytes:
        """Return the artifact's bytes.

        Raises Invalid for an artifact of another tenant, and ArtifactNotFound when its size or hash
        differs from the marker.
        """
        key = read_ref(marker.ref, tenant_id)
        stream = _MeasuredStream(self.store.open(key.path), self.limit)
        data = b"".join(stream)
        if stream.size != marker.bytes or stream.digest.hexdigest() != marker.sha256:
            raise ArtifactNotFound(f"The content of artifact {key.path} has changed")
        return data

    def put_payloads(self, tenant_id: UUID, jobs: Sequence[JobRequest]) -> list[JobRequest]:
        """Return the jobs, with markers in place of payloads that are too large for a row.

        Payloads are stored before their jobs are created. When the creation fails, the sweep
        deletes the unused artifacts.
        """
        requests = list(jobs)
        for index, text in find_large_payloads(jobs).items():
            if not self.is_configured:
                raise NoArtifactStore(
                    f"The payload of {len(text):,} bytes is too large for a row, and no artifact"
                    f" store is configured; {_HOW}",
                    field="payload",
                    detail={"limit": PAYLOAD_LIMIT, "index": index},
                    hint=_HINT,
                )
            marker = self.put(new_key(tenant_id, uuid4(), _PAYLOAD), text)
            requests[index] = requests[index]._replace(
                payload=marker.to_json(), artifact_ref=marker.ref
            )
        return requests

    def delete_tenant(self, tenant_id: UUID) -> bool:
        """Delete the tenant's files and return whether there were any. Without a store: False."""
        return self.is_configured and self.store.delete_prefix(str(tenant_id))


def open_artifacts(config: "Config") -> Artifacts:
    """Return the artifacts of these settings, without opening the store.

    `with_default_artifacts` adds the default location to the settings.
    """
    return Artifacts(
        config.artifacts,
        limit=config.artifact_limit,
        credentials=_credentials(config),
    )


def _credentials(config: "Config") -> dict[str, str]:
    given = {
        "access_key_id": config.artifacts_access_key,
        "secret_access_key": config.artifacts_secret_key,
    }
    return {name: value for name, value in given.items() if value is not None}


class _MeasuredStream:
    """Passes chunks through and measures size and hash; raises PayloadTooLarge past the limit."""

    def __init__(self, pieces: Iterable[bytes], limit: int) -> None:
        from hashlib import sha256  # noqa: PLC0415 - it loads OpenSSL; few jobs have artifacts

        self._pieces = pieces
        self._limit = limit
        self.size = 0
        self.digest = sha256()

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.size += len(piece)
            if self.size > self._limit:
                raise PayloadTooLarge(
                    f"The artifact is larger than {self._limit:,} bytes",
                    detail={"limit": self._limit},
                )
            self.digest.update(piece)
            yield piece
