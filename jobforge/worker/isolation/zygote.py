"""The zygote: a process that has only imported the app, and forks a child per job (fork_server.py).

The worker starts it as a program (zygote_client.py) and sends it requests over one socket.
"""

import contextlib
import gc
import io
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson

from jobforge.errors import JobForgeError, Json
from jobforge.observability import tracing
from jobforge.process.hardening import forbid_inspection
from jobforge.redact import log_scope, redact_text
from jobforge.sdk.app import JobForge
from jobforge.sdk.command import Command, add_commands
from jobforge.sdk.loader import load_app
from jobforge.worker.isolation import environment, limits
from jobforge.worker.isolation.channel import EX_SOFTWARE
from jobforge.worker.isolation.child import Definitions
from jobforge.worker.isolation.fast_fork import ForkHooks, choose_fork
from jobforge.worker.isolation.fork_server import ForkServer
from jobforge.worker.isolation.frames import FrameDecoder, FrameKind, encode_frame
from jobforge.worker.isolation.landlock import Landlock
from jobforge.worker.isolation.levels import set_up_isolation
from jobforge.worker.isolation.warmup import warm_up


def main() -> None:
    worker = socket.socket(fileno=int(sys.argv[1]))
    forbid_inspection()
    # While the app is imported, nothing polls the socket, so the signal has to end this process.
    signal.signal(signal.SIGUSR2, lambda _number, _frame: sys.exit(EX_SOFTWARE))
    limits.die_with_parent(signal.SIGUSR2)
    environment.find_mark_slot()
    setup = _receive_setup(worker)
    try:
        server = _build_server(setup, worker)
        level, lack = setup["chosen"]
        ready = {"threads": _list_extra_threads(), "level": level.label, "lack": lack}
        worker.sendall(encode_frame(FrameKind.READY, orjson.dumps(ready)))
        server.serve()
    except BrokenPipeError:
        sys.exit(EX_SOFTWARE)
    finally:
        from jobforge.worker.isolation.remove_tree import remove_tree  # noqa: PLC0415 - see _remove_in_fork

        remove_tree(setup["folder"])


def _build_server(setup: dict[str, Json], worker: socket.socket) -> ForkServer:
    hooks = ForkHooks()
    processes = setup["job_processes"]
    try:
        sandboxes, setup["chosen"] = set_up_isolation(setup)
        # The worker has imported the app too, and shown its output.
        with hooks.watch_registrations():
            with _silence():
                app = load_app(setup["target"])
            app.lifecycle.processes.run_zygote_start()
            definitions = _prepare_definitions(app, setup)
        if setup["is_traced"]:
            # Not watched: the hooks of the SDK do nothing after the warm-up.
            tracing.prepare_child_tracing()
        warm_up(app.client)
    except Exception as error:  # noqa: BLE001 - any error is sent to the worker
        worker.sendall(encode_frame(FrameKind.FAILED, orjson.dumps(_describe_error(error))))
        sys.exit(EX_SOFTWARE)
    _prepare_process(setup["job_environment"])
    landlock = Landlock([Path(path) for path in setup["secret_files"]])
    fork = choose_fork(hooks)
    if sandboxes is not None:
        sandboxes.set_fork(fork)
    server = ForkServer(
        *(definitions, worker, setup["folder"], fork, landlock),
        process_hooks=app.lifecycle.processes,
        sandboxes=sandboxes,
        processes=processes,
    )
    # Frozen last, so that no child's garbage collector writes to shared pages (copy-on-write).
    gc.collect()
    gc.freeze()
    return server


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with (
        open(os.devnull, "w", encoding="utf-8") as devnull,  # noqa: PTH123 - os.devnull is a string
        contextlib.redirect_stdout(devnull),
        contextlib.redirect_stderr(devnull),
    ):
        yield


def _receive_setup(worker: socket.socket) -> dict[str, Json]:
    frames = FrameDecoder()
    while data := worker.recv(65_536):
        for kind, body in frames.feed(data):
            if kind is FrameKind.SETUP:
                return dict(orjson.loads(body))
    sys.exit(EX_SOFTWARE)


def _prepare_definitions(app: JobForge, setup: dict[str, Json]) -> Definitions:
    add_commands(app.command, setup["commands"])
    for definition in app.definitions.values():
        # Computed here once, and not in every child.
        _ = definition.parameters, definition.result
        if isinstance(definition, Command):
            import_module("shutil")
        if definition.settings.isolation == "process" and (
            definition.is_async or definition.start_hooks
        ):
            import_module("jobforge.worker.isolation.async_handler")
    return app.definitions


def _prepare_process(names: Iterable[str]) -> None:
    """Set up once what all children inherit: environment, umask, limits, output buffering."""
    environment.restrict_environment(names)
    os.umask(0o077)
    limits.set_no_new_privileges()
    limits.forbid_core_dumps()
    limits.become_subreaper()
    tempfile: Any = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile.tempdir = None  # each child has a different one
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)


def _list_extra_threads() -> list[str]:
    """Return the names of threads that the app has started.

    It should not: a fork does not have these threads, but may inherit locks that they hold.
    """
    others = set(threading.enumerate()) - {threading.main_thread()}
    return sorted(thread.name for thread in others)


def _describe_error(error: Exception) -> dict[str, Json]:
    if isinstance(error, JobForgeError):
        return {"message": redact_text(error.message, log_scope()), "hint": error.hint}
    message = "".join(traceback.format_exception(error))
    return {"message": redact_text(message, log_scope()), "hint": None}


if __name__ == "__main__":
    main()
