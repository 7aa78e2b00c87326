"""The engine's public SQL functions, one typed function for each, under the same names.

A function here only builds a Call, a value with the SQL, its parameters and a decoder for its rows.
db/ runs calls on the engine's connections, sync or async; any code that runs SQL can do the same.
Arguments that cannot be sent raise Invalid when the call is built. The functions are imported on
first use of any of them, because a process that forks job processes needs none.

Functions on a tenant's jobs need the tenant. `call.for_tenant(id)` sets it for the call's
transaction and works for every login. The argument `tenant_id` passes it without a setting: for
logins in jobforge_service, on connections outside the engine.
"""

# ruff: noqa: F403, F405 - a list of the names would repeat all functions

from importlib import import_module
from inspect import isfunction
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, get_origin

from jobforge.calls.call import Call as Call
from jobforge.calls.call import PendingResult as PendingResult

if TYPE_CHECKING:
    from jobforge.calls.admin import *
    from jobforge.calls.api_requests import *
    from jobforge.calls.artifact_stores import *
    from jobforge.calls.connectors import *
    from jobforge.calls.events import *
    from jobforge.calls.failures import *
    from jobforge.calls.installation import *
    from jobforge.calls.jobs import *
    from jobforge.calls.keys import *
    from jobforge.calls.operations import *
    from jobforge.calls.statistics import *
    from jobforge.calls.stream import *
    from jobforge.calls.triggers import *
    from jobforge.calls.webhooks import *
    from jobforge.calls.worker import *
    from jobforge.calls.workflows import *
else:

    def __getattr__(name: str) -> Any:  # noqa: ANN401 - the type of any function
        functions = {} if name.startswith("_") else _import_functions()
        if name not in functions:
            raise AttributeError(f"jobforge.calls has no {name}")
        globals().update(functions)  # later lookups do not call this function
        return functions[name]


def __dir__() -> list[str]:
    return ["Call", "PendingResult", *_import_functions()]


def _import_functions() -> dict[str, Any]:
    """Return the public functions of the submodules that return a Call."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    return {
        name: found
        for module in modules
        for name, found in vars(module).items()
        if isfunction(found)
        and get_origin(found.__annotations__.get("return")) is Call
        and found.__module__ != Call.__module__
        and not name.startswith("_")
    }
