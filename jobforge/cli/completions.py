"""Shell completion values from the engine. Errors are ignored; each lookup has one second."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Thread

import typer

from jobforge.cli.engine import CliEngine, ConnectionOptions, open_engine

_TIMEOUT_S = 1.0
_MOST = 200


def complete_definitions(context: typer.Context) -> list[str]:
    from jobforge import calls

    call = calls.list_definitions(limit=_MOST)
    return complete_from_engine(context, lambda engine: (each.key for each in engine.run(call)))


def suggest_definition(engine: CliEngine, definition: str) -> str:
    """Return the hint for an unknown definition: the closest known key, if one is similar."""
    from difflib import get_close_matches

    from jobforge import calls

    known = [each.key for each in engine.run(calls.list_definitions(limit=_MOST))]
    near = get_close_matches(definition.partition("@")[0], known, n=1)
    if near and near[0] not in definition:
        return f"Did you mean {near[0]}? jobforge definitions list shows all definitions"
    return "Run jobforge definitions list; workers register their app's definitions when they start"


def complete_queues(context: typer.Context) -> list[str]:
    from jobforge import calls

    return complete_from_engine(
        context, lambda engine: (each.name for each in engine.run(calls.list_queues()))
    )


def complete_tenants(context: typer.Context) -> list[str]:
    from jobforge import calls

    return complete_from_engine(
        context,
        lambda engine: (each.slug or str(each.id) for each in engine.run(calls.list_tenants())),
    )


def complete_from_engine(
    context: typer.Context, read: Callable[[CliEngine], Iterable[str]]
) -> list[str]:
    """Return what `read` finds in the engine of the options typed so far.

    Returns an empty list on an error or after the timeout.
    """
    found: list[str] = []
    flags = (context.params.get(name) for name in ("database_url", "server", "api_key"))
    connection = ConnectionOptions(*flags)

    def look_up() -> None:
        # An error message would appear within the line that the user is typing.
        with suppress(Exception), open_engine(connection) as engine:
            found.extend(read(engine))

    thread = Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(_TIMEOUT_S)
    return list(found)
