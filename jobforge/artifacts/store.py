"""What keeps artifacts: one protocol for all of them.

Calls block. Async code makes them in a thread (`asyncio.to_thread`).
"""

from collections.abc import Iterable, Iterator
from typing import Protocol
from uuid import UUID


class Store(Protocol):
    """Paths are those of keys. Raises ArtifactUnavailable when it cannot do its work."""

    def identity(self) -> UUID:
        """A random id that is kept in the store itself, created by the first who asks.

        Two processes that read different ids have different stores.
        """

    def put(self, path: str, data: bytes | Iterable[bytes]) -> None:
        """The whole or nothing: nobody ever finds a part. What was there is replaced."""

    def open(self, path: str) -> Iterator[bytes]:
        """Piece by piece; ArtifactNotFound at the first."""

    def size(self, path: str) -> int:
        """In bytes; ArtifactNotFound."""

    def delete(self, path: str) -> None:
        """Also when it is not there."""

    def delete_prefix(self, prefix: str) -> None:
        """All of a tenant, or of a folder."""

    def list_folders(self) -> Iterator[str]:
        """`<tenant>/<day>/<folder>` of all that there is, each once. Clears away what was begun
        a day ago and never finished."""

    def sign_url(self, path: str, seconds: float) -> str | None:
        """An address under which anybody may read it for so long; None where there are none."""
