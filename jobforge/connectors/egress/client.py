"""HTTP client for requests of tenants: one connection per request, with a deadline and limits.

The client follows redirects itself, so that each hop is checked like the first. It ignores proxies
from the environment.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from urllib.parse import unquote, urljoin, urlsplit

import httpcore2
from httpcore2 import AsyncNetworkBackend

from jobforge.config import Config
from jobforge.connectors.egress.backend import GuardedBackend, ProxyBackend, Resolve
from jobforge.connectors.egress.dns_thread_pool import resolve
from jobforge.connectors.egress.headers import (
    Headers,
    check_headers,
    remove_headers,
    remove_private_headers,
)
from jobforge.connectors.egress.policy import Policy, policy_from_config
from jobforge.connectors.egress.response_body import read_body, read_body_prefix
from jobforge.connectors.egress.url import Destination, read_url
from jobforge.errors import (
    BadResponse,
    ConfigError,
    DeadlineExceeded,
    EgressError,
    Invalid,
    TlsError,
    TooManyRedirects,
    Unreachable,
)
from jobforge.observability import tracing

MIB = 1024 * 1024

_CONNECT_S = 5.0
_REDIRECTS = frozenset((301, 302, 303, 307, 308))


@dataclass(frozen=True, slots=True)
class EgressRequest:
    """`private_headers` are sent to the first origin only, as are the usual credential headers.

    With `redirects=0` a redirect is an ordinary response. `traceparent` is sent unless a header
    sets it. Without `needs_body`, the client returns only the part of the body that arrives soon,
    is within the limit and can be decoded.
    """

    method: str
    url: str
    headers: Headers = ()
    body: bytes | None = None
    private_headers: frozenset[str] = frozenset()
    redirects: int = 0
    deadline_s: float = 30.0
    limit_bytes: int = MIB
    needs_body: bool = True
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class EgressResponse:
    """`body` is decompressed; `url` is the URL after redirects."""

    status: int
    headers: Headers
    body: bytes
    url: str

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class EgressClient:
    """The guarded client. `resolve`, `network` and `ssl_context` default to the system's."""

    def __init__(
        self,
        policy: Policy,
        *,
        resolve: Resolve = resolve,
        network: AsyncNetworkBackend | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.policy = policy
        self._proxy = _proxy(policy.proxy)
        self._backend: AsyncNetworkBackend
        if self._proxy is None:
            self._backend = GuardedBackend(policy, resolve=resolve, network=network)
        else:
            url = self._proxy.url
            self._backend = ProxyBackend(url.host.decode(), url.port, network)
        self._ssl_context = ssl_context

    async def send(self, request: EgressRequest) -> EgressResponse:
        """Send a request. Raises an EgressError, or Invalid for a malformed request."""
        target = read_url(request.url, self.policy)
        with tracing.client_span(request.method, target.host, target.port) as span:
            traced = _add_traceparent(request, tracing.current_traceparent())
            check_headers(traced.headers)
            response = await self._send(traced, target)
            tracing.record_status(span, response.status, min_error_status=400)
        return response

    async def _send(self, request: EgressRequest, target: Destination) -> EgressResponse:
        try:
            async with asyncio.timeout(request.deadline_s):
                return await self._follow(request, target)
        except TimeoutError:
            raise DeadlineExceeded(
                f"The request took longer than {request.deadline_s:g} s"
            ) from None

    async def _follow(self, request: EgressRequest, target: Destination) -> EgressResponse:
        remaining = request.redirects
        while True:
            with _translate_errors(target):
                response = await self._exchange(request, target)
            location = response.header("location")
            if not request.redirects or response.status not in _REDIRECTS or location is None:
                return response
            if remaining == 0:
                raise TooManyRedirects(f"The response has more than {request.redirects} redirects")
            remaining -= 1
            next_target = _redirect_target(location, target, self.policy)
            request = _redirect_request(request, response.status, target, next_target)
            target = next_target

    async def _exchange(self, request: EgressRequest, target: Destination) -> EgressResponse:
        async with self._open_pool() as pool:
            request_out = httpcore2.Request(
                request.method,
                httpcore2.URL(
                    scheme=target.scheme, host=target.host, port=target.port, target=target.path
                ),
                headers=_headers(request, target),
                content=request.body,
                extensions={"timeout": {"connect": _CONNECT_S}},
            )
            response = await pool.handle_async_request(request_out)
            try:
                body = await _body(request, response)
            finally:
                await response.aclose()
        headers = tuple(
            (name.decode("latin-1"), text.decode("latin-1")) for name, text in response.headers
        )
        return EgressResponse(response.status, headers, body, target.url)

    @asynccontextmanager
    async def _open_pool(self) -> AsyncIterator[httpcore2.AsyncConnectionPool]:
        """Open a pool of one connection for one request: tenants do not share connections."""
        if self._ssl_context is None:
            self._ssl_context = httpcore2.default_ssl_context()
        async with httpcore2.AsyncConnectionPool(
            ssl_context=self._ssl_context,
            proxy=self._proxy,
            max_connections=1,
            max_keepalive_connections=0,
            network_backend=self._backend,
        ) as pool:
            yield pool


async def _body(request: EgressRequest, response: httpcore2.Response) -> bytes:
    if request.method == "HEAD":
        return b""
    read = read_body if request.needs_body else read_body_prefix
    return await read(response, limit=request.limit_bytes)


def open_egress(config: Config) -> EgressClient:
    """Return the client for this process's configuration."""
    logging.getLogger("httpcore2").setLevel(logging.WARNING)  # its debug log has headers
    return EgressClient(policy_from_config(config), ssl_context=httpcore2.default_ssl_context())


def _proxy(url: str | None) -> httpcore2.Proxy | None:
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError("egress_proxy must be an http:// or https:// URL", field="egress_proxy")
    auth = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return httpcore2.Proxy(
        httpcore2.URL(scheme=parts.scheme, host=parts.hostname, port=port, target="/"), auth=auth
    )


def _add_traceparent(request: EgressRequest, current: str | None) -> EgressRequest:
    """Add the traceparent header unless the request has one."""
    traceparent = current or request.traceparent
    if traceparent is None or any(name.lower() == "traceparent" for name, _ in request.headers):
        return request
    return replace(request, headers=(*request.headers, ("traceparent", traceparent)))


def _headers(request: EgressRequest, target: Destination) -> list[tuple[bytes, bytes]]:
    given = [(name.encode(), value.encode("latin-1")) for name, value in request.headers]
    headers = [(b"host", target.authority.encode()), (b"accept-encoding", b"identity")]
    headers.append((b"connection", b"close"))
    if not any(name.lower() == b"user-agent" for name, _ in given):
        headers.append((b"user-agent", b"JobForge"))
    if request.body is not None or request.method in {"POST", "PUT", "PATCH"}:
        headers.append((b"content-length", str(len(request.body or b"")).encode()))
    return [*headers, *given]


def _redirect_target(location: str, target: Destination, policy: Policy) -> Destination:
    try:
        return read_url(urljoin(target.url, location), policy)
    except (Invalid, ValueError):
        raise BadResponse("The response redirects to an invalid URL") from None


def _redirect_request(
    request: EgressRequest, status: int, target: Destination, next_target: Destination
) -> EgressRequest:
    """Return the request of the next hop, like browsers; a body goes only to the first origin."""
    becomes_get = (status == 303 and request.method != "HEAD") or (
        status in {301, 302} and request.method == "POST"
    )
    if next_target.origin != target.origin:
        if request.body is not None and not becomes_get:
            raise _body_redirect_error()
        request = replace(
            request, headers=remove_private_headers(request.headers, request.private_headers)
        )
    if not becomes_get:
        return request
    headers = remove_headers(
        request.headers, {"content-type", "content-encoding", "content-language"}
    )
    return replace(request, method="GET", body=None, headers=headers)


def _body_redirect_error() -> BadResponse:
    error = BadResponse(
        "Requests with a body are not redirected to another origin; use the URL of that origin"
    )
    error.is_final = True
    return error


@contextmanager
def _translate_errors(target: Destination) -> Iterator[None]:
    """Translate httpcore2's errors; the messages must not reveal a resolved address."""
    try:
        yield
    except httpcore2.TimeoutException:
        raise DeadlineExceeded(f"Connecting took longer than {_CONNECT_S:g} s") from None
    except httpcore2.ConnectError as error:
        raise _connect_error(error, target) from None
    except httpcore2.ProxyError:
        raise Unreachable("The egress proxy rejected the request") from None
    except ssl.SSLError:
        raise TlsError("The TLS connection was interrupted") from None
    except (httpcore2.NetworkError, OSError):
        raise Unreachable(f"The connection to {target.host} was interrupted") from None
    except (httpcore2.ProtocolError, httpcore2.UnsupportedProtocol):
        raise BadResponse("The response is not valid HTTP") from None


def _connect_error(error: Exception, target: Destination) -> EgressError:
    cause = error.args[0] if error.args else None  # the pool clears __cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return TlsError(f"The certificate is invalid: {cause.verify_message}")
    if isinstance(cause, ssl.SSLError):
        return TlsError("The TLS connection failed")
    return Unreachable(f"The connection to {target.host} failed")
