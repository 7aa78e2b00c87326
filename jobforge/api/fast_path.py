"""Fast path for the most frequent requests: bypasses routing and FastAPI's parsing.

Routing and parsing take longer than JobForge's own work for such a request. Authentication and
authorization are the same as for any route (guard.py). A request that a shortcut cannot handle,
such as an invalid body, continues to its route, which returns the error.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobforge.api import guard, request_body
from jobforge.api.auth.permissions import RULES
from jobforge.api.problems import get_request_id, problem_from_error
from jobforge.api.request_body import ParsedBody
from jobforge.api.state import ServerState
from jobforge.errors import JobForgeError

Shortcut = Callable[[Request, ParsedBody], Coroutine[Any, Any, Response | None]]


class FastPath:
    """ASGI middleware with shortcuts by method and path.

    A shortcut returns None to pass the request on to its route.
    """

    def __init__(self, app: ASGIApp, *, shortcuts: Mapping[tuple[str, str], Shortcut]) -> None:
        self._app = app
        self._shortcuts = {
            method_and_path: (RULES[method_and_path], each)
            for method_and_path, each in shortcuts.items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = self._shortcuts.get((scope.get("method", ""), scope.get("path", "")))
        if match is None or scope["query_string"]:
            await self._app(scope, receive, send)
            return
        rule, shortcut = match
        scope["jobforge.route"] = rule.path
        server: ServerState = scope["app"].state.server
        request = Request(scope, receive)
        try:
            await guard.admit(request, server, rule)
            body = await request_body.read(request, guard.body_limit(server, rule.path))
            response = await shortcut(request, body)
        except JobForgeError as error:
            await problem_from_error(error, get_request_id(request))(scope, receive, send)
            return
        if response is None:
            await self._app(scope, _replay_body(body.raw, receive), send)
        else:
            await response(scope, receive, send)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first replays the body already read."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return messages.pop() if messages else await receive()

    return received
