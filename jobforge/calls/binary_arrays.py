"""Arrays in Postgres's binary format, for calls with thousands of jobs.

psycopg would process every element twice. These classes pack all elements at once, and psycopg
passes the bytes on (db/driver.py).
"""

from collections.abc import Sequence
from struct import pack
from typing import Any, ClassVar, Self
from uuid import UUID

from jobforge.errors import Json
from jobforge.types.jsonb import encode

_HEAD = "!iiIii"


class BinaryArray(bytes):
    """The bytes of an array whose type has this `oid`."""

    oid: ClassVar[int]
    element: ClassVar[int]

    values: Sequence[Any]  # the elements, for code that does not send them to Postgres

    @classmethod
    def pack(cls, values: Sequence[Any], elements: Sequence[bytes]) -> Self:
        """Pack elements that already have their length prefix."""
        array = cls(pack(_HEAD, 1, 1, cls.element, len(elements), 1) + b"".join(elements))
        array.values = values
        return array


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
        UuidArray.pack(tenants, [_LENGTH_OF_ID + tenant_id.bytes for tenant_id in tenants]),
        UuidArray.pack(jobs, [_LENGTH_OF_ID + job_id.bytes for job_id in jobs]),
        LeaseArray.pack(leases, [_LENGTH_OF_LEASE + lease.to_bytes(8, "big") for lease in leases]),
    )


def pack_documents(values: Sequence[Json]) -> JsonbArray:
    """Pack values as jsonb[]; None becomes SQL null. Raises Invalid for an unencodable value."""
    elements = [_NULL if value is None else _document(value) for value in values]
    return JsonbArray.pack(values, elements)


def _document(value: Json) -> bytes:
    text = _JSONB_VERSION + encode(value, "result").encode()
    return pack("!i", len(text)) + text
