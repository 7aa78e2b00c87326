"""The artifact of a job, as a server streams it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx2

from jobforge.artifacts.marker import Of
from jobforge.client.errors import error_of, error_of_transport
from jobforge.client.request import TENANT_HEADER
from jobforge.client.transport import AsyncTransport, Transport


@dataclass(frozen=True, slots=True)
class Wanted:
    """Of which job; the tenant as the transport has it, unless it is named."""

    job_id: UUID
    of: Of | None = None
    tenant_id: UUID | None = None

    def parts(self) -> dict[str, Any]:
        tenant = {} if self.tenant_id is None else {TENANT_HEADER: str(self.tenant_id)}
        of = {} if self.of is None else {"of": self.of}
        return {
            "method": "GET",
            "url": f"/jobs/{self.job_id}/artifact",
            "params": {"proxied": "true", **of},
            "headers": tenant,
        }


@contextmanager
def pieces(transport: Transport, wanted: Wanted) -> Iterator[Iterator[bytes]]:
    """Raises what the server refuses."""
    try:
        with transport.http.stream(**wanted.parts()) as response:
            if not response.is_success:
                response.read()
                raise error_of(response)
            yield response.iter_bytes()
    except httpx2.HTTPError as error:
        raise error_of_transport(error, transport.address.url) from error


@asynccontextmanager
async def apieces(transport: AsyncTransport, wanted: Wanted) -> AsyncIterator[AsyncIterator[bytes]]:
    """As `pieces`, for async code."""
    try:
        async with transport.http.stream(**wanted.parts()) as response:
            if not response.is_success:
                await response.aread()
                raise error_of(response)
            yield response.aiter_bytes()
    except httpx2.HTTPError as error:
        raise error_of_transport(error, transport.address.url) from error
