"""A job that does nothing, run in the zygote before the first fork.

Python learns from code that runs: where it found an attribute, which instruction serves a call
best. It writes that down beside the code and the types, so a fork that has it all to learn copies
sixty pages more (docs/decisions/0020).
"""

import signal
import socket
from uuid import UUID

from jobforge.sdk.definition import Decorated
from jobforge.sdk.engine_client import Client
from jobforge.sdk.hooks import Hooks
from jobforge.sdk.job_scope import set_door
from jobforge.sdk.settings import Settings
from jobforge.worker.isolation.channel import job_frames
from jobforge.worker.isolation.child import run_job

_KEY = "_"
_TIMES = 16  # it begins to learn after eight
_NOBODY = UUID(int=0)


def rehearse(client: Client) -> None:
    """Leaves nothing behind that a job could see."""
    definition: Decorated[[], None, [], None]
    definition = Decorated(_do_nothing, Settings(_KEY), client, Hooks(_do_nothing))
    frames = job_frames(definition.imagined({}, _NOBODY), _NOBODY)
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    for _ in range(_TIMES):
        worker, job = socket.socketpair()
        with worker, job:
            worker.sendall(frames)
            run_job({_KEY: definition}, job.fileno(), definition.settings.limits)
    set_door(None)
    for number, handler in handlers.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def _do_nothing() -> None:
    pass
