"""Shell completion values from the engine. Errors are ignored; each lookup has one second."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from threading import Thread
from typing import cast

from jobforge import calls
from jobforge.cli.context import CommandContext, ResourceKind, TenantSession, find_tenant, list_call
from jobforge.cli.engine import CliEngine, open_engine

_TIMEOUT_S = 1.0
_MOST = 200
_MOST_IDS = 20


def complete_definitions(context: CommandContext) -> list[str]:
    call = calls.list_definitions(limit=_MOST)
    return _complete_from_engine(context, lambda engine: (each.key for each in engine.run(call)))


def suggest_definition(engine: CliEngine, definition: str) -> str:
    """Return the hint for an unknown definition: the closest known key, if one is similar."""
    known = [each.key for each in engine.run(calls.list_definitions(limit=_MOST))]
    near = get_close_matches(definition.partition("@")[0], known, n=1)
    if near and near[0] not in definition:
        return f"Did you mean {near[0]}? jobforge definitions list shows all definitions"
    return "Run jobforge definitions list; workers register their app's definitions when they start"


def complete_queues(context: CommandContext) -> list[str]:
    return _complete_from_engine(
        context, lambda engine: (each.name for each in engine.run(calls.list_queues()))
    )


def complete_tenants(context: CommandContext) -> list[str]:
    return _complete_from_engine(
        context,
        lambda engine: (each.slug or str(each.id) for each in engine.run(calls.list_tenants())),
    )


def complete_ids(context: CommandContext) -> list[str]:
    """Return the newest IDs of the command group's resource."""
    kind = str(context.parent and context.parent.info_name).removesuffix("s")
    newest = list_call(cast("ResourceKind", kind))(limit=_MOST_IDS)

    def read(engine: CliEngine) -> list[str]:
        session = TenantSession(engine, find_tenant(engine, context.config.tenant))
        return [str(each.id) for each in session.run(newest)]

    return _complete_from_engine(context, read)


def _complete_from_engine(
    context: CommandContext, read: Callable[[CliEngine], Iterable[str]]
) -> list[str]:
    """Return what `read` finds in the engine of the options typed so far.

    Returns an empty list on an error or after the timeout.
    """
    found: list[str] = []

    def look_up() -> None:
        # An error message would appear within the line that the user is typing.
        with suppress(Exception), open_engine(context.config) as engine:
            found.extend(read(engine))

    thread = Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(_TIMEOUT_S)
    return list(found)
