"""The protocol of artifact stores.

Calls block. Async code runs them in a thread (`asyncio.to_thread`).
"""

from collections.abc import Iterable, Iterator
from typing import Protocol
from uuid import UUID


class Store(Protocol):
    """A store of bytes by path; keys.py defines the paths.

    Every method raises ArtifactUnavailable when the store fails.
    """

    def identity(self) -> UUID:
        """Return the store's random ID, which is kept in the store; create it on first use.

        Two processes that read different IDs use different stores.
        """

    def put(self, path: str, data: bytes | Iterable[bytes]) -> None:
        """Store the data atomically: readers never see a part. Replaces existing data."""

    def open(self, path: str) -> Iterator[bytes]:
        """Iterate over the data in chunks; raise ArtifactNotFound on the first one."""

    def size(self, path: str) -> int:
        """Return the size in bytes; raise ArtifactNotFound."""

    def delete_prefix(self, prefix: str) -> bool:
        """Delete all files of a tenant or of a folder, and return whether there were any."""

    def list_folders(self) -> Iterator[str]:
        """Iterate over all folders, as `<tenant>/<day>/<folder>`, without duplicates.

        Also deletes uploads that were started more than a day ago and never completed.
        """

    def sign_url(self, path: str, seconds: float) -> str | None:
        """Return a URL that anybody can read for this many seconds; None if unsupported."""
