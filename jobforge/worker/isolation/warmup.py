"""Warm up the zygote: run an empty job in it before the first fork.

Python specializes code while it runs, and caches attribute lookups. It stores both in code objects
and types, so without the warm-up each fork writes to 60 more pages, which the kernel has to copy
(docs/decisions/0020).
"""

import signal
import socket
from uuid import UUID

from jobforge.sdk.call_context import set_process_channel
from jobforge.sdk.definition import CallableDefinition
from jobforge.sdk.definition_settings import DefinitionSettings
from jobforge.sdk.engine_client import EngineClient
from jobforge.sdk.hooks import Hooks
from jobforge.worker.isolation.channel import encode_job
from jobforge.worker.isolation.child import run_job

_KEY = "_"
_WARMUP_RUNS = 16  # Python specializes code after eight runs
_NIL_ID = UUID(int=0)


def warm_up(client: EngineClient) -> None:
    """Run empty jobs, then restore the process channel and the signal handlers."""
    definition: CallableDefinition[[], None, [], None]
    definition = CallableDefinition(
        _do_nothing, DefinitionSettings(_KEY), client, Hooks(_do_nothing)
    )
    frames = encode_job(definition.fake_claimed_job({}, _NIL_ID), _NIL_ID)
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    for _ in range(_WARMUP_RUNS):
        worker, job = socket.socketpair()
        with worker, job:
            worker.sendall(frames)
            run_job({_KEY: definition}, job.fileno(), definition.settings.limits)
    set_process_channel(None)
    for number, handler in handlers.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def _do_nothing() -> None:
    pass
