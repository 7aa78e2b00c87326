"""Sends requests to a server, sync and async, and again after failures that pass."""

import asyncio
import time
from typing import Any, TypeVar

from jobforge.calls import Call
from jobforge.client.address import ServerAddress
from jobforge.client.request import TENANT_HEADER, ApiRequest
from jobforge.client.routes import ROUTES, Routes, request_from_call
from jobforge.errors import Contended, JobForgeError, Json, TooManyRequests, Unavailable
from jobforge.observability import tracing
from jobforge.timing.backoff import ExponentialBackoff

try:
    import httpx2

    from jobforge.client.errors import error_from_transport, read_response
except ImportError as error:
    raise ImportError(
        'HTTP requires httpx2; install it with: pip install "jobforge[http]"'
    ) from error

T = TypeVar("T")

# Shorter than the server's keepalive of 5 s, so that the client closes idle connections first.
_IDLE_S = 3.0
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 30.0


class Transport:
    """Connections to one server; thread-safe."""

    def __init__(self, address: ServerAddress, routes: Routes = ROUTES) -> None:
        self.address = address
        self._routes = routes
        self.http = httpx2.Client(**_settings(address))

    def run(self, call: Call[T] | ApiRequest[T]) -> T:
        request = call if isinstance(call, ApiRequest) else request_from_call(call, self._routes)
        retry_policy = RetryPolicy(self.address.retries)
        while True:
            try:
                return request.read(self._send(request))
            except JobForgeError as error:
                pause_s = retry_policy.next_pause_s(request, error)
                if pause_s is None:
                    raise
            time.sleep(pause_s)

    def close(self) -> None:
        self.http.close()

    def _send(self, request: ApiRequest[object]) -> Json:
        try:
            return read_response(self.http.request(**_parts(request)))
        except httpx2.HTTPError as error:
            raise error_from_transport(error, self.address.url) from error


class AsyncTransport:
    """Async twin of Transport, for one event loop."""

    def __init__(self, address: ServerAddress, routes: Routes = ROUTES) -> None:
        self.address = address
        self._routes = routes
        self.http = httpx2.AsyncClient(**_settings(address))

    async def run(self, call: Call[T] | ApiRequest[T]) -> T:
        request = call if isinstance(call, ApiRequest) else request_from_call(call, self._routes)
        retry_policy = RetryPolicy(self.address.retries)
        while True:
            try:
                return request.read(await self._send(request))
            except JobForgeError as error:
                pause_s = retry_policy.next_pause_s(request, error)
                if pause_s is None:
                    raise
            await asyncio.sleep(pause_s)

    async def close(self) -> None:
        await self.http.aclose()

    def abort(self) -> None:
        """Do nothing: the sockets were closed with their event loop."""

    async def _send(self, request: ApiRequest[object]) -> Json:
        try:
            return read_response(await self.http.request(**_parts(request)))
        except httpx2.HTTPError as error:
            raise error_from_transport(error, self.address.url) from error


def _settings(address: ServerAddress) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {address.key}"}
    if address.tenant is not None:
        headers[TENANT_HEADER] = address.tenant
    return {
        "base_url": address.url,
        "headers": headers,
        "timeout": address.timeout_s,
        "trust_env": address.trust_env,
        # Loading the CA certificates is slow, and without TLS they are not used.
        "verify": address.is_secure,
        "limits": httpx2.Limits(keepalive_expiry=_IDLE_S),
    }


def _parts(request: ApiRequest[object]) -> dict[str, Any]:
    headers = dict(request.headers)
    if request.body is not None:
        headers["content-type"] = "application/json"
    traceparent = tracing.current_traceparent()
    if traceparent is not None:
        headers["traceparent"] = traceparent
    return {
        "method": request.method,
        "url": request.path,
        "params": request.query or None,
        "content": request.body,
        "headers": headers,
    }


class RetryPolicy:
    """Exponential backoff with jitter for one request."""

    def __init__(self, retries: int) -> None:
        self._retries = retries
        self._backoff = ExponentialBackoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)

    def next_pause_s(self, request: ApiRequest[object], error: JobForgeError) -> float | None:
        """Return how long to wait before the next attempt; None to give up."""
        if self._backoff.count >= self._retries or not _may_repeat(request, error):
            return None
        pause = self._backoff.next_pause_s()
        retry_after_s = float(error.detail.get("retry_after_s", 0))
        return None if retry_after_s > _LONGEST_PAUSE_S else max(pause, retry_after_s)


def _may_repeat(request: ApiRequest[object], error: JobForgeError) -> bool:
    if isinstance(error, TooManyRequests | Contended):
        return True  # the server did not execute the request
    if not isinstance(error, Unavailable):
        return False
    return request.is_repeatable or error.detail.get("is_sent") is False
