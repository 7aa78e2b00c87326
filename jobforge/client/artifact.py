"""Streams a job's artifact from a server."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx2

from jobforge.artifacts.marker import ArtifactSource
from jobforge.client.errors import error_from_response, error_from_transport
from jobforge.client.request import TENANT_HEADER
from jobforge.client.transport import AsyncTransport, Transport


@dataclass(frozen=True, slots=True)
class ArtifactRequest:
    """The job whose artifact to read. Default tenant: the transport's."""

    job_id: UUID
    of: ArtifactSource | None = None
    tenant_id: UUID | None = None

    def request_kwargs(self) -> dict[str, Any]:
        tenant = {} if self.tenant_id is None else {TENANT_HEADER: str(self.tenant_id)}
        of = {} if self.of is None else {"of": self.of}
        return {
            "method": "GET",
            "url": f"/jobs/{self.job_id}/artifact",
            "params": {"proxied": "true", **of},
            "headers": tenant,
        }


@contextmanager
def open_chunks(transport: Transport, request: ArtifactRequest) -> Iterator[Iterator[bytes]]:
    """Stream an artifact in chunks. Raises the server's error."""
    try:
        with transport.http.stream(**request.request_kwargs()) as response:
            if not response.is_success:
                response.read()
                raise error_from_response(response)
            yield response.iter_bytes()
    except httpx2.HTTPError as error:
        raise error_from_transport(error, transport.address.url) from error


@asynccontextmanager
async def aopen_chunks(
    transport: AsyncTransport, request: ArtifactRequest
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Async twin of `open_chunks`."""
    try:
        async with transport.http.stream(**request.request_kwargs()) as response:
            if not response.is_success:
                await response.aread()
                raise error_from_response(response)
            yield response.aiter_bytes()
    except httpx2.HTTPError as error:
        raise error_from_transport(error, transport.address.url) from error
