"""`@jf.job`: turns a function into a definition of the app and keeps its types.

The overloads separate a leading Context from the job's parameters, and the result of an async
function from the coroutine that it returns.
"""

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from jobforge.errors import Invalid
from jobforge.sdk.definition import CallableDefinition
from jobforge.sdk.definition_settings import (
    DefinitionSettings,
    JobSettings,
    read_settings,
    refuse_unknown,
)

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
    settings: JobSettings = field(default_factory=JobSettings)

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

    def __call__(
        self, function: Callable[..., Any] | None = None, /, **settings: Unpack[JobSettings]
    ) -> Any:
        if function is not None:
            return self._decorate(function)
        refuse_unknown(settings, JobSettings, "job")
        return JobDecorator(self.add, settings)

    def _decorate(self, function: Callable[..., Any]) -> CallableDefinition[..., Any, ..., Any]:
        if not inspect.isfunction(function):
            raise Invalid(f"A job must be a function, not {function!r}")
        settings = JobSettings(key=function.__name__)
        settings.update(self.settings)
        settings["description"] = settings.get("description") or _first_paragraph(function)
        return self.add(function, read_settings(**settings))


def _first_paragraph(function: Callable[..., Any]) -> str | None:
    text = inspect.getdoc(function)
    return " ".join(text.partition("\n\n")[0].split()) if text else None
