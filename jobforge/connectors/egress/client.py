"""Requests of tenants: each on a connection of its own, within a deadline and limits.

Redirects are followed by us, so that every hop is checked as the first; proxies that the
environment names are not used.
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
    """`private` are names of headers that only the first origin may see, besides the usual ones.

    With `redirects` of 0 a redirect is an answer as any other. `traceparent` is where it comes
    from, unless a header says so. Without `needs_body` only as much of the answer's is read as
    comes soon, is within the limit and is legible.
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
    """`body` is decompressed; `url` is where it came from in the end."""

    status: int
    headers: Headers
    body: bytes
    url: str

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class EgressClient:
    """The guarded client. `resolve`, `network` and `ssl_context` are the ways of the system."""

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
        """Raises an EgressError, or Invalid for what can be no request."""
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
                f"the request took longer than {request.deadline_s:g} s"
            ) from None

    async def _follow(self, request: EgressRequest, target: Destination) -> EgressResponse:
        left = request.redirects
        while True:
            with _translate_errors(target):
                response = await self._exchange(request, target)
            where = response.header("location")
            if not request.redirects or response.status not in _REDIRECTS or where is None:
                return response
            if left == 0:
                raise TooManyRedirects(f"more than {request.redirects} redirects")
            left -= 1
            onward = _redirect_target(where, target, self.policy)
            request = _redirect_request(request, response.status, target, onward)
            target = onward

    async def _exchange(self, request: EgressRequest, target: Destination) -> EgressResponse:
        async with self._open_pool() as pool:
            asked = httpcore2.Request(
                request.method,
                httpcore2.URL(
                    scheme=target.scheme, host=target.host, port=target.port, target=target.path
                ),
                headers=_headers(request, target),
                content=request.body,
                extensions={"timeout": {"connect": _CONNECT_S}},
            )
            answer = await pool.handle_async_request(asked)
            try:
                body = await _body(request, answer)
            finally:
                await answer.aclose()
        headers = tuple(
            (name.decode("latin-1"), text.decode("latin-1")) for name, text in answer.headers
        )
        return EgressResponse(answer.status, headers, body, target.url)

    @asynccontextmanager
    async def _open_pool(self) -> AsyncIterator[httpcore2.AsyncConnectionPool]:
        """A pool of one connection for one request: tenants share none."""
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


async def _body(request: EgressRequest, answer: httpcore2.Response) -> bytes:
    if request.method == "HEAD":
        return b""
    read = read_body if request.needs_body else read_body_prefix
    return await read(answer, limit=request.limit_bytes)


def open_egress(config: Config) -> EgressClient:
    """The client of this process, as its settings have it."""
    logging.getLogger("httpcore2").setLevel(logging.WARNING)  # it would show headers
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
    """With a header that says where it comes from."""
    traceparent = current or request.traceparent
    if traceparent is None or any(name.lower() == "traceparent" for name, _ in request.headers):
        return request
    return replace(request, headers=(*request.headers, ("traceparent", traceparent)))


def _headers(request: EgressRequest, target: Destination) -> list[tuple[bytes, bytes]]:
    given = [(name.encode(), value.encode("latin-1")) for name, value in request.headers]
    own = [(b"host", target.authority.encode()), (b"accept-encoding", b"identity")]
    own.append((b"connection", b"close"))
    if not any(name.lower() == b"user-agent" for name, _ in given):
        own.append((b"user-agent", b"JobForge"))
    if request.body is not None or request.method in {"POST", "PUT", "PATCH"}:
        own.append((b"content-length", str(len(request.body or b"")).encode()))
    return [*own, *given]


def _redirect_target(where: str, target: Destination, policy: Policy) -> Destination:
    try:
        return read_url(urljoin(target.url, where), policy)
    except (Invalid, ValueError):
        raise BadResponse("the response redirects to what is no URL") from None


def _redirect_request(
    request: EgressRequest, status: int, target: Destination, onward: Destination
) -> EgressRequest:
    """The request of the next hop, as browsers make it; a body stays with the first origin."""
    becomes_get = (status == 303 and request.method != "HEAD") or (
        status in {301, 302} and request.method == "POST"
    )
    if onward.origin != target.origin:
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
        "the response redirects a request with a body to another origin, which is not followed:"
        " use the URL of that origin"
    )
    error.is_final = True
    return error


@contextmanager
def _translate_errors(target: Destination) -> Iterator[None]:
    """Errors of the transport in our words, which name no address that a name was resolved to."""
    try:
        yield
    except httpcore2.TimeoutException:
        raise DeadlineExceeded(f"no connection within {_CONNECT_S:g} s") from None
    except httpcore2.ConnectError as error:
        raise _connect_error(error, target) from None
    except httpcore2.ProxyError:
        raise Unreachable("the egress proxy refuses it") from None
    except ssl.SSLError:
        raise TlsError("the secure connection broke") from None
    except (httpcore2.NetworkError, OSError):
        raise Unreachable(f"the connection to {target.host} broke") from None
    except (httpcore2.ProtocolError, httpcore2.UnsupportedProtocol):
        raise BadResponse("the response is not HTTP as it should be") from None


def _connect_error(error: Exception, target: Destination) -> EgressError:
    cause = error.args[0] if error.args else None  # the pool takes it from the chain
    if isinstance(cause, ssl.SSLCertVerificationError):
        return TlsError(f"the certificate is refused: {cause.verify_message}")
    if isinstance(cause, ssl.SSLError):
        return TlsError("no secure connection could be made")
    return Unreachable(f"no connection to {target.host} could be made")
