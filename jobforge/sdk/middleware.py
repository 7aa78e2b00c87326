"""Middleware: functions of an app that wrap the handlers of its jobs.

A middleware receives the context and `call_next`. It wraps handlers of its own kind only: a sync
function cannot wait for an async handler, and an async one would run a sync handler in an event
loop. An app with both kinds of handlers registers two functions.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from jobforge.errors import Invalid

if TYPE_CHECKING:
    from jobforge.sdk.context import Context

# Calls the next middleware, or the handler. Returns the result; in async middleware, an awaitable.
CallNext = Callable[[], Any]
HandlerKind = Literal["sync", "async"]

M = TypeVar("M", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Middleware:
    """A registered middleware. `handlers` is the kind to which it is restricted, if any."""

    function: Callable[..., Any]
    handlers: HandlerKind | None = None

    def __post_init__(self) -> None:
        if not inspect.isfunction(self.function):
            raise Invalid(f"A middleware must be a function, not {self.function!r}")
        if inspect.isgeneratorfunction(self.function) or inspect.isasyncgenfunction(self.function):
            raise Invalid(f"{self._label} is a generator; return the result of call_next()")
        if self.handlers not in {None, self.kind}:
            raise Invalid(f"{self._label} is {self.kind} and cannot wrap {self.handlers} handlers")

    @property
    def kind(self) -> HandlerKind:
        return "async" if inspect.iscoroutinefunction(self.function) else "sync"

    def wraps(self, key: str, kind: HandlerKind) -> bool:
        """Whether it wraps the handler of this kind. Raises Invalid if it should, but cannot."""
        if self.kind == kind:
            return True
        if self.handlers is None:
            raise Invalid(
                f"{self._label} is {self.kind}, but the handler of {key} is {kind}",
                field="handlers",
                hint=f'Register it by @jf.middleware(handlers="{self.kind}"), and a second,'
                f" {kind} function for the other handlers",
            )
        return False

    @property
    def _label(self) -> str:
        return f"Middleware {self.function.__qualname__}"


@dataclass(frozen=True, slots=True)
class MiddlewareDecorator:
    """Register a function that wraps the handlers of the app: `@jf.middleware`.

    The function receives the context and `call_next`, and returns what `call_next()` returns. The
    first registered function is the outermost. `handlers="sync"` or `handlers="async"` restricts
    it to handlers of its own kind, in an app that has both.
    """

    add: Callable[[Middleware], None]

    @overload
    def __call__(self, function: M, /) -> M: ...
    @overload
    def __call__(self, /, *, handlers: HandlerKind) -> Callable[[M], M]: ...

    def __call__(
        self, function: M | None = None, /, *, handlers: HandlerKind | None = None
    ) -> M | Callable[[M], M]:
        def register(wrapper: M) -> M:
            self.add(Middleware(wrapper, handlers))
            return wrapper

        return register if function is None else register(function)


def call_through(functions: Sequence[Callable[..., Any]], ctx: "Context", call: CallNext) -> Any:  # noqa: ANN401 - any handler result
    """Call the functions around `call`, from the outermost to the innermost."""
    for function in reversed(functions):
        call = partial(function, ctx, call)
    return call()
