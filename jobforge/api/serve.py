"""HTTP server: application, listening socket, signals and graceful shutdown."""

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial

import uvicorn
from fastapi import FastAPI

from jobforge.api import create_app
from jobforge.api.connection_limits import ForwardedLimit, limiter_from_config
from jobforge.api.dashboard import MOUNT
from jobforge.api.http_protocol import LimitedHttpProtocol
from jobforge.api.state import ServerState
from jobforge.config import Config
from jobforge.errors import ConfigError
from jobforge.observability import logs
from jobforge.process import interrupts
from jobforge.security.api_keys import PlaintextApiKey

_DRAIN_S = 10
_FORCED_S = 2
_BACKLOG = 2048
_POLL_S = 0.2


def uvicorn_config(app: FastAPI, config: Config) -> uvicorn.Config:
    """Return uvicorn's configuration with the connection limits."""
    connections = limiter_from_config(config)
    return uvicorn.Config(
        ForwardedLimit(app, connections),
        http=partial(LimitedHttpProtocol, connections=connections),  # type: ignore[arg-type]  # uvicorn only calls it
        log_config=None,
        lifespan="on",
        access_log=False,
        server_header=False,
        timeout_keep_alive=config.keep_alive_s,
        timeout_graceful_shutdown=min(_DRAIN_S, int(config.drain_s)),
    )


class HttpServer(uvicorn.Server):
    """uvicorn's server without its signal handlers; its shutdown also closes the application."""

    def __init__(self, app: FastAPI, config: Config) -> None:
        self._app = app
        self.startup_done = threading.Event()  # set after startup, also after a failed one
        super().__init__(uvicorn_config(app, config))

    def capture_signals(self) -> nullcontext[None]:  # type: ignore[override]  # equivalent for `with`
        return nullcontext()

    def stop(self) -> None:
        """Shut down gracefully; the second call shuts down immediately."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            logs.emit("server.listening", url=url_from_socket((sockets or [])[0]))
        self.startup_done.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn waits for open streams first, and they last until the application closes them.
        self._app.state.server.close()
        await super().shutdown(sockets)
        if self.force_exit:
            # uvicorn would cancel it with the event loop and report that as an error.
            with suppress(TimeoutError):
                async with asyncio.timeout(_FORCED_S):
                    await self.lifespan.shutdown()


async def serve(config: Config, *, until_stdin_closes: bool) -> int:
    """Serve until stopped. Return the exit code: 1 after a forced shutdown or a failed start."""
    _quiet_uvicorn()
    http_server = HttpServer(create_app(config), config)
    loop = asyncio.get_running_loop()
    interrupts.on_stop_signals(loop, http_server.stop)
    if until_stdin_closes:
        interrupts.on_end_of_stdin(loop, http_server.stop)
    sock = bind_socket(config.server_host, config.server_port)
    await http_server.serve(sockets=[sock])
    logs.emit("server.stopped")
    return 1 if http_server.force_exit or not http_server.started else 0


def create_event_loop() -> asyncio.AbstractEventLoop:
    """Return a uvloop event loop where uvloop is installed, otherwise asyncio's."""
    try:
        import uvloop  # noqa: PLC0415 - optional dependency
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A listening server."""

    url: str
    app: FastAPI

    def create_sign_in_link(self, key: PlaintextApiKey, tenant: str) -> str:
        """Return a one-time link that signs in to the tenant's dashboard; valid for 10 minutes."""
        server: ServerState = self.app.state.server
        ticket = server.authentication.tickets.create(key)
        return f"{self.url}{MOUNT}/t/{tenant}/#ticket={ticket}"


@contextmanager
def serve_in_thread(config: Config, *, any_port: bool = False) -> Iterator[RunningServer]:
    """Run a server in a thread, for `jobforge dev`.

    `any_port`: on a free port if the configured one is taken.
    """
    _quiet_uvicorn()
    try:
        sock = bind_socket(config.server_host, config.server_port)
    except ConfigError:
        if not any_port:
            raise
        sock = bind_socket(config.server_host, 0)
    url = url_from_socket(sock)
    app = create_app(config)
    http_server = HttpServer(app, config)
    thread = threading.Thread(target=http_server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    while thread.is_alive() and not http_server.startup_done.wait(_POLL_S):
        pass  # startup may take long on a busy machine
    try:
        yield RunningServer(url, app)
    finally:
        http_server.stop()
        thread.join(timeout=_DRAIN_S)


def bind_socket(host: str, port: int) -> socket.socket:
    """Bind and listen; raise ConfigError if the port is taken or the address is not local."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets with an explicit protocol.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        # Two processes can bind the same port before either listens; uvloop would not report it.
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise ConfigError(
            f"Cannot listen on {host}:{port}: {error.strerror}",
            hint="Stop the other server, or choose another port with --port",
        ) from error
    sock.set_inheritable(True)
    return sock


def url_from_socket(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _quiet_uvicorn() -> None:
    for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi"):
        logging.getLogger(name).setLevel(logging.WARNING)
