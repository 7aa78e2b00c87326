"""Async handlers and hooks in a job's process.

Apart from child.py, because it needs asyncio, which adds a tenth to what every fork costs
(docs/decisions/0020). A zygote imports this module where a definition has use for it; others do
without. So no module that an app imports has asyncio at its top: coroutines in client, durable,
handle and pools import it when they run.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from jobforge.payloads.signature import Arguments
from jobforge.sdk.context import Context
from jobforge.sdk.definition import Definition

if TYPE_CHECKING:
    from jobforge.worker.isolation.child import Stopper


def run_handler(
    definition: Definition[..., Any], ctx: Context, arguments: Arguments, stopper: "Stopper"
) -> Any:  # noqa: ANN401 - whatever the function returns
    return asyncio.run(_handle(definition, ctx, arguments, stopper))


def run_start_hooks(definition: Definition[..., Any], ctx: Context) -> None:
    asyncio.run(definition.run_start_hooks(ctx))


async def _handle(
    definition: Definition[..., Any], ctx: Context, arguments: Arguments, stopper: "Stopper"
) -> Any:  # noqa: ANN401 - as above
    stopper.begin(asyncio.current_task())
    if definition.start_hooks:
        await definition.run_start_hooks(ctx)
    return await definition.invoke(ctx, arguments)
