"""`@jf.job`: turns a function into a definition of the app and keeps its types.

The overloads separate a leading Context from the job's parameters, and the result of an async
function from the coroutine that it returns.
"""

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from jobforge.errors import Invalid
from jobforge.sdk.definition import CallableDefinition
from jobforge.sdk.definition_settings import DefinitionSettings, JobSettings, read_settings

if TYPE_CHECKING:
    from jobforge.sdk.context import Context

P = ParamSpec("P")
R = TypeVar("R")

AddDefinition = Callable[
    [Callable[..., Any], DefinitionSettings], CallableDefinition[..., Any, ..., Any]
]


@dataclass(frozen=True, slots=True)
class JobDecorator:
    """Turn a function into a definition: `@jf.job`, or `@jf.job(queue="mail")` with settings.

    The settings are also the defaults of the jobs that you enqueue from the definition:
    """

    add: AddDefinition
    settings: DefinitionSettings = field(default_factory=read_settings)
    is_named: bool = False  # when False, the key is the function's name

    @overload
    def __call__(
        self, function: Callable[Concatenate["Context", P], Coroutine[Any, Any, R]], /
    ) -> CallableDefinition[Concatenate["Context", P], Coroutine[Any, Any, R], P, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate["Context", P], R], /
    ) -> CallableDefinition[Concatenate["Context", P], R, P, R]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> CallableDefinition[P, Coroutine[Any, Any, R], P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> CallableDefinition[P, R, P, R]: ...
    @overload
    def __call__(self, /, **settings: Unpack[JobSettings]) -> "JobDecorator": ...

    def __call__(self, function: Callable[..., Any] | None = None, /, **settings: Any) -> Any:
        if function is not None:
            return self._decorate(function)
        return JobDecorator(self.add, read_settings(**settings), is_named="key" in settings)

    def _decorate(self, function: Callable[..., Any]) -> CallableDefinition[..., Any, ..., Any]:
        if not inspect.isfunction(function):
            raise Invalid(f"A job must be a function, not {function!r}")
        key = self.settings.key if self.is_named else function.__name__
        description = self.settings.description or _first_paragraph(function)
        return self.add(function, replace(self.settings, key=key, description=description))


def _first_paragraph(function: Callable[..., Any]) -> str | None:
    text = inspect.getdoc(function)
    return " ".join(text.partition("\n\n")[0].split()) if text else None
