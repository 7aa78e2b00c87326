"""Arrays in Postgres's binary format, for calls with thousands of jobs.

psycopg would process every element twice. These classes pack all elements at once, and psycopg
passes the bytes on (db/driver.py).
"""

from collections.abc import Sequence
from struct import calcsize, pack, unpack_from
from typing import ClassVar, Self
from uuid import UUID

from jobforge.errors import Json
from jobforge.types.jobs import Token
from jobforge.types.jsonb import encode

_HEAD = "!iiIii"


class BinaryArray(bytes):
    """The bytes of an array whose type has this `oid`."""

    oid: ClassVar[int]
    element: ClassVar[int]

    @classmethod
    def from_elements(cls, elements: Sequence[bytes]) -> Self:
        """Pack elements that already have their length prefix."""
        return cls(pack(_HEAD, 1, 1, cls.element, len(elements), 1) + b"".join(elements))

    def elements(self) -> list[bytes | None]:
        """Unpack the elements, for code that does not send them to Postgres; None is null."""
        count = unpack_from(_HEAD, self)[3]
        offset, values = calcsize(_HEAD), list[bytes | None]()
        for _ in range(count):
            (length,) = unpack_from("!i", self, offset)
            offset += 4
            values.append(None if length < 0 else self[offset : offset + length])
            offset += max(length, 0)
        return values


class LeaseArray(BinaryArray):
    oid, element = 1016, 20  # bigint


class UuidArray(BinaryArray):
    oid, element = 2951, 2950  # uuid


class JsonbArray(BinaryArray):
    oid, element = 3807, 3802  # jsonb


_LENGTH_OF_LEASE, _LENGTH_OF_ID, _NULL = (pack("!i", length) for length in (8, 16, -1))
_JSONB_VERSION = b"\1"


def pack_tokens(
    tokens: Sequence[tuple[UUID, UUID, int]],
) -> tuple[UuidArray, UuidArray, LeaseArray]:
    """Return tenants, jobs and leases as three arrays."""
    tenants, jobs, leases = zip(*tokens, strict=True)
    return (
        UuidArray.from_elements([_LENGTH_OF_ID + tenant_id.bytes for tenant_id in tenants]),
        UuidArray.from_elements([_LENGTH_OF_ID + job_id.bytes for job_id in jobs]),
        LeaseArray.from_elements([_LENGTH_OF_LEASE + lease.to_bytes(8, "big") for lease in leases]),
    )


def unpack_tokens(tenants: UuidArray, jobs: UuidArray, leases: LeaseArray) -> list[Token]:
    parts = zip(tenants.elements(), jobs.elements(), leases.elements(), strict=True)
    return [
        Token(UUID(bytes=tenant), UUID(bytes=job), int.from_bytes(lease or b"", "big"))
        for tenant, job, lease in parts
    ]


def pack_documents(values: Sequence[Json]) -> JsonbArray:
    """Pack values as jsonb[]; None becomes SQL null. Raises Invalid for an unencodable value."""
    return JsonbArray.from_elements(
        [_NULL if value is None else _document(value) for value in values]
    )


def unpack_documents(documents: JsonbArray) -> list[str | None]:
    """Return the elements as JSON strings."""
    texts = documents.elements()
    return [None if text is None else text.removeprefix(_JSONB_VERSION).decode() for text in texts]


def _document(value: Json) -> bytes:
    text = _JSONB_VERSION + encode(value, "result").encode()
    return pack("!i", len(text)) + text
