"""JobForge: a job server that is a set of SQL functions in Postgres.

What an app needs is here; each name is imported when it is first used, so that `jobforge --help`
does not wait for all of it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobforge import errors
    from jobforge.app import JobForge
    from jobforge.batch import BatchHandle
    from jobforge.context import Context
    from jobforge.definition import Definition
    from jobforge.flow import WorkflowHandle
    from jobforge.handle import Handle
    from jobforge.nodes import Node
    from jobforge.remote.client import AsyncClient, Client
    from jobforge.settings import Rate
    from jobforge.signals import Cancel, Cancelled, Dead, Retry, Snooze
    from jobforge.webhook import verify_webhook

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "BatchHandle",
    "Cancel",
    "Cancelled",
    "Client",
    "Context",
    "Dead",
    "Definition",
    "Handle",
    "JobForge",
    "Node",
    "Rate",
    "Retry",
    "Snooze",
    "WorkflowHandle",
    "errors",
    "verify_webhook",
]

_MODULES = {
    "AsyncClient": "remote.client",
    "BatchHandle": "batch",
    "Cancel": "signals",
    "Cancelled": "signals",
    "Client": "remote.client",
    "Context": "context",
    "Dead": "signals",
    "Definition": "definition",
    "Handle": "handle",
    "JobForge": "app",
    "Node": "nodes",
    "Rate": "settings",
    "Retry": "signals",
    "Snooze": "signals",
    "WorkflowHandle": "flow",
    "verify_webhook": "webhook",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whichever of the names
    from importlib import import_module  # noqa: PLC0415 - as the rest

    if name == "errors":
        return import_module("jobforge.errors")
    if name not in _MODULES:
        raise AttributeError(f"jobforge has no {name}")
    found = getattr(import_module(f"jobforge.{_MODULES[name]}"), name)
    globals()[name] = found  # from now on without this function
    return found
