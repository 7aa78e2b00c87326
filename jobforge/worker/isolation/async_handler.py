"""Run async handlers and start hooks in a job's process.

Separate from child.py, because importing asyncio adds 10% to the cost of every fork
(docs/decisions/0020). A zygote imports this module only if one of its definitions needs it. For the
same reason no module that an app imports has asyncio among its top-level imports: coroutines in the
client and the SDK import it when they run.
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
) -> Any:  # noqa: ANN401 - any handler result
    return asyncio.run(_handle(definition, ctx, arguments, stopper))


def run_start_hooks(definition: Definition[..., Any], ctx: Context) -> None:
    asyncio.run(definition.run_start_hooks(ctx))


async def _handle(
    definition: Definition[..., Any], ctx: Context, arguments: Arguments, stopper: "Stopper"
) -> Any:  # noqa: ANN401 - any handler result
    stopper.begin(asyncio.current_task())
    if definition.start_hooks:
        await definition.run_start_hooks(ctx)
    return await definition.invoke(ctx, arguments)
