"""The HTTP server put together: application, socket, signals, an orderly end."""

import asyncio
import logging
import os
import socket
import sys
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
_SIGN_IN_LINK_S = 600.0


def uvicorn_config(app: FastAPI, config: Config) -> uvicorn.Config:
    """How uvicorn runs the application, with our limits on connections."""
    connections = limiter_from_config(config)
    return uvicorn.Config(
        ForwardedLimit(app, connections),
        http=partial(LimitedHttpProtocol, connections=connections),  # type: ignore[arg-type]  # it is only called
        log_config=None,
        lifespan="on",
        access_log=False,
        server_header=False,
        timeout_keep_alive=config.keep_alive_s,
        timeout_graceful_shutdown=min(_DRAIN_S, int(config.drain_s)),
    )


class HttpServer(uvicorn.Server):
    """uvicorn, which leaves the signals to us and tells the application when it is to end."""

    def __init__(self, app: FastAPI, config: Config) -> None:
        self._app = app
        self.startup_done = threading.Event()  # whether it could start
        super().__init__(uvicorn_config(app, config))

    def capture_signals(self) -> nullcontext[None]:  # type: ignore[override]  # the same to `with`
        return nullcontext()

    def stop(self) -> None:
        """Once: answer what was asked, then end. Twice: end."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            logs.emit("server.listening", url=url_from_socket((sockets or [])[0]))
        self.startup_done.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Streams go on until they are told; uvicorn waits for them first.
        self._app.state.server.close()
        await super().shutdown(sockets)
        if self.force_exit:
            # uvicorn leaves it to be canceled with the loop, and reports that as an error.
            with suppress(TimeoutError):
                async with asyncio.timeout(_FORCED_S):
                    await self.lifespan.shutdown()


async def serve(config: Config, *, until_stdin_closes: bool) -> int:
    """Serves until it is told to stop. The exit code is 1 when it was told so twice."""
    _quiet_uvicorn()
    listener = HttpServer(create_app(config), config)
    interrupts.on_stop_signals(asyncio.get_running_loop(), listener.stop)
    if until_stdin_closes:
        _stop_on_stdin_eof(listener)
    bound = bind_socket(config.server_host, config.server_port)
    await listener.serve(sockets=[bound])
    logs.emit("server.stopped")
    return 1 if listener.force_exit or not listener.started else 0


def create_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed."""
    try:
        import uvloop  # noqa: PLC0415 - it is not installed everywhere
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that listens."""

    url: str
    app: FastAPI

    def create_sign_in_link(self, key: PlaintextApiKey, tenant: str) -> str:
        """Leads to the tenant's dashboard, signed in; once, and for as long as somebody may take
        to click on it."""
        server: ServerState = self.app.state.server
        ticket = server.authentication.tickets.create(key, _SIGN_IN_LINK_S)
        return f"{self.url}{MOUNT}/t/{tenant}/#ticket={ticket}"


@contextmanager
def serve_in_thread(config: Config) -> Iterator[RunningServer]:
    """A server in a thread, for `dev`; on another port when its own is taken."""
    _quiet_uvicorn()
    try:
        bound = bind_socket(config.server_host, config.server_port)
    except ConfigError:
        bound = bind_socket(config.server_host, 0)
    url = url_from_socket(bound)
    app = create_app(config)
    listener = HttpServer(app, config)
    thread = threading.Thread(target=listener.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while thread.is_alive() and not listener.startup_done.wait(_POLL_S):
        pass  # a busy machine takes its time
    try:
        yield RunningServer(url, app)
    finally:
        listener.stop()
        thread.join(timeout=_DRAIN_S)


def bind_socket(host: str, port: int) -> socket.socket:
    """Raises ConfigError when the port is taken, or the host is not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) only on sockets that say what they are.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        # Two processes may bind the same port while neither listens; uvloop would not report it.
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            hint="is another server running? --port names another port",
        ) from error
    bound.set_inheritable(True)
    return bound


def url_from_socket(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _quiet_uvicorn() -> None:
    for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _stop_on_stdin_eof(listener: HttpServer) -> None:
    loop = asyncio.get_running_loop()
    stdin = sys.stdin.fileno()

    def read() -> None:
        if not os.read(stdin, 4096):
            loop.remove_reader(stdin)
            listener.stop()

    loop.add_reader(stdin, read)
