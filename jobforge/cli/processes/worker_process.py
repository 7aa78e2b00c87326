"""Assemble and run a worker, scheduler or supervisor process: app, database, signals, metrics."""

import asyncio
import gc
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

from psycopg.conninfo import conninfo_to_dict

from jobforge import connectors
from jobforge.artifacts import Artifacts, open_artifacts
from jobforge.artifacts.default_location import with_default_artifacts
from jobforge.cli.database import explain_url_errors
from jobforge.cli.engine import explain_database_errors, explain_server_errors
from jobforge.cli.processes.supervisor import Supervisor
from jobforge.client.address import ServerAddress, address_from_config
from jobforge.config import Config, secret_files
from jobforge.config.settings import SECRET_FILES
from jobforge.db import Database
from jobforge.errors import ConfigError
from jobforge.observability import logs
from jobforge.observability.metrics import Meters
from jobforge.observability.metrics_server import serve_metrics
from jobforge.observability.tracing import setup
from jobforge.process import interrupts
from jobforge.process.environment import environment, select_variables
from jobforge.redact import (
    NOT_HIDDEN_WARNING,
    is_secret_name,
    register_operator_secret,
    register_secret,
)
from jobforge.scheduler.scheduler import Scheduler
from jobforge.sdk import loader
from jobforge.sdk.app import JobForge
from jobforge.sdk.command import add_commands, filter_servable
from jobforge.sdk.definition import Definition
from jobforge.sdk.definition_settings import Isolation
from jobforge.security.secret_lookup import Secrets
from jobforge.worker import Worker
from jobforge.worker.inline import InlineRunner
from jobforge.worker.isolation.runner import ProcessRunner
from jobforge.worker.runner_protocol import JobServices, Runner

if TYPE_CHECKING:
    from jobforge.client.worker_engine import HttpEngine

_SLOTS_PER_CORE = 2
_INLINE_SLOTS = 100
_GC_THRESHOLD = 20_000  # new objects per collection; Python's default is 700


def load_app(target: str, config: Config) -> JobForge:
    """Configure logs and secrets, then load the app and add the commands in the settings."""
    _configure_logs(config)
    _register_secrets(config)
    _warn_about_environment(config)
    with logs.capture_output():
        app = loader.load_app(target)
    setup.configure("jobforge-worker")  # does nothing if the app has configured tracing
    add_commands(app.command, config.commands)
    return app


def count_slots(
    definitions: Iterable[Definition[..., Any]],
    queues: Mapping[str, int | None],
    concurrency: int | None,
) -> dict[str, int]:
    """Return the number of slots of each queue.

    Without `queues`, the queues of the definitions. A queue without a number gets `concurrency`
    slots; default: two per core, or 100 if all its jobs run inline.
    """
    offered = list(definitions)
    named = queues or dict.fromkeys(sorted({each.settings.queue for each in offered}))
    if not named:
        raise ConfigError("The app has no jobs", hint="Declare a job with @jf.job")
    return {
        queue: slots or concurrency or _default_slots(queue, offered)
        for queue, slots in named.items()
    }


async def serve_worker(
    app: JobForge, target: str, config: Config, *, until_stdin_closes: bool
) -> int:
    """Run a worker until it is stopped. Return 1 after a second stop signal, otherwise 0."""
    server = address_from_config(config)
    database = _make_database(config) if server is None else _make_remote_engine(server)
    if server is None:
        config = with_default_artifacts(config, config.database_url)
    stops = 0

    def stop() -> None:
        nonlocal stops
        stops += 1
        logs.emit("worker.draining" if stops == 1 else "worker.stopping")
        worker.stop()

    with explain_database_errors() if server is None else explain_server_errors():
        await database.open()
    try:
        meters = _make_meters(config)
        worker = _make_worker(app, database, target, config, meters)
        if server is not None:
            app.client.set_request_sender(worker.job_services.request)
        _configure_logs(config, worker.worker_id)
        loop = asyncio.get_running_loop()
        interrupts.on_stop_signals(loop, stop)
        if until_stdin_closes:
            interrupts.on_end_of_stdin(loop, stop)
        # Imported objects stay alive and jobs create thousands of short-lived objects: without
        # this, garbage collection would take about 10% of the time.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])
        # Inline handlers print in this process: redact secrets in their output.
        with logs.capture_output():
            async with _serve_metrics(meters, config):
                await worker.run()
    finally:
        await database.close()
        setup.shutdown()
    return 0 if stops < 2 else 1


async def serve_scheduler(config: Config, *, until_stdin_closes: bool) -> int:
    """Run a scheduler without a worker until it is stopped."""
    _configure_logs(config)
    _register_secrets(config)
    database = _make_database(config)
    with explain_database_errors():
        await database.open()
    try:
        meters = _make_meters(config)
        scheduler = _make_scheduler(database, config, meters)
        loop = asyncio.get_running_loop()
        interrupts.on_stop_signals(loop, scheduler.stop)
        if until_stdin_closes:
            interrupts.on_end_of_stdin(loop, scheduler.stop)
        logs.emit("scheduler.started")
        async with _serve_metrics(meters, config):
            await scheduler.run()
        logs.emit("scheduler.stopped")
    finally:
        await database.close()
    return 0


async def serve_supervisor(config: Config) -> int:
    """Run several workers with this process's arguments. Return the exit code."""
    _configure_logs(config)
    # Click uses the last value of a repeated option.
    supervisor = Supervisor(
        [*sys.argv[1:], "--processes", "1"],
        size=config.processes,
        metrics_port=config.metrics_port,
    )
    interrupts.on_stop_signals(asyncio.get_running_loop(), supervisor.stop)
    return await supervisor.run()


def _make_database(config: Config) -> Database:
    return Database(
        str(config.database_url),
        behind_pooler=config.behind_pooler,
        listen_url=config.listen_url,
    )


def _make_remote_engine(server: ServerAddress) -> "HttpEngine":
    from jobforge.client.worker_engine import HttpEngine

    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it logs each request
    return HttpEngine(server)


def _default_slots(queue: str, definitions: list[Definition[..., Any]]) -> int:
    own = [each for each in definitions if each.settings.queue == queue] or definitions
    if all(each.settings.isolation == "inline" for each in own):
        return _INLINE_SLOTS
    return _SLOTS_PER_CORE * _count_cores()


def _count_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1


def _configure_logs(config: Config, worker_id: UUID | None = None) -> None:
    logs.configure(format=config.log_format, level=config.log_level, worker_id=worker_id)


def _register_secrets(config: Config) -> None:
    """Register the secrets to redact: in this process's logs, and in the output of jobs."""
    for setting in ("database_url", "listen_url"):
        if url := getattr(config, setting):
            with explain_url_errors():
                password = conninfo_to_dict(url).get("password")
            _register(setting, str(password or ""))
    proxy = urlsplit(config.egress_proxy or "").password
    _register("egress_proxy", proxy and unquote(proxy))
    for setting in SECRET_FILES.values():
        if not setting.endswith("_url"):
            _register(setting, getattr(config, setting))
    for name in select_variables(config.job_environment, environment()):
        value = environment().get(name)
        if value and is_secret_name(name) and not register_secret(value):
            logs.emit(
                "secret.not_hidden", level="warning", variable=name, reason=NOT_HIDDEN_WARNING
            )


def _warn_about_environment(config: Config) -> None:
    if "*" in config.job_environment:
        logs.emit(
            "environment.not_restricted",
            level="warning",
            reason="job_environment is *: jobs receive all variables of the worker but its own",
        )


def _register(setting: str, secret: str | None) -> None:
    if secret and not register_operator_secret(secret):
        logs.emit("secret.not_hidden", level="warning", setting=setting, reason=NOT_HIDDEN_WARNING)


def _make_meters(config: Config) -> Meters | None:
    return None if config.metrics_port is None else Meters()


@asynccontextmanager
async def _serve_metrics(meters: Meters | None, config: Config) -> AsyncIterator[None]:
    if meters is None or config.metrics_port is None:
        yield
        return
    async with serve_metrics(
        meters, config.metrics_host, config.metrics_port, config.metrics_token
    ) as port:
        logs.emit("metrics.shown", host=config.metrics_host, port=port)
        yield


def _make_worker(
    app: JobForge,
    database: "Database | HttpEngine",
    target: str,
    config: Config,
    meters: Meters | None,
) -> Worker:
    def make_process_runner(services: JobServices) -> Runner:
        return ProcessRunner(
            target,
            services,
            environment=environment(),
            job_environment=config.job_environment,
            secret_files=secret_files(config),
            commands=config.commands,
            allowed_commands=config.allowed_commands,
            result_limit=config.artifact_limit,
            isolation_level=config.isolation_level,
            job_user_range=config.job_user_range,
            job_processes=config.job_processes,
            meters=meters,
        )

    runners: Mapping[Isolation, Callable[[JobServices], Runner]] = {
        "inline": InlineRunner,
        "process": make_process_runner,
    }
    definitions = _list_servable(app, config)
    queues = count_slots(definitions, config.queues, config.concurrency)
    make_connectors = None
    if config.connectors and isinstance(database, Database) and connectors.are_installed():
        make_connectors = partial(
            connectors.make_connectors,
            services=connectors.ConnectorServices(database.run, config),
            client=app.client,
        )
        queues.setdefault(connectors.QUEUE, connectors.SLOTS)
    return Worker(
        app,
        database,
        queues=queues,
        runners=runners,
        definitions=definitions,
        secrets=Secrets(config.secrets_dir),
        lease_s=config.lease_s,
        heartbeat_s=config.heartbeat_s,
        poll_s=config.poll_s if isinstance(database, Database) else database.poll_s,
        drain_s=config.drain_s,
        build=config.build,
        artifacts=_open_artifacts(config, database),
        make_connectors=make_connectors,
        # A worker over HTTP has no database connection for a scheduler.
        scheduler=_make_scheduler(database, config, meters)
        if config.scheduler and isinstance(database, Database)
        else None,
        meters=meters,
    )


def _list_servable(app: JobForge, config: Config) -> list[Definition[..., Any]]:
    """Return the definitions that this worker may run; raise ConfigError if it may run none."""
    found = filter_servable(app.definitions.values(), config.allowed_commands)
    if app.definitions and not found and not config.queues:
        names = ",".join(sorted(app.definitions))
        raise ConfigError(
            "The app has only commands, and this worker allows none of them",
            field="allowed_commands",
            hint=f"Set JOBFORGE_ALLOWED_COMMANDS={names}, or allowed_commands in jobforge.toml",
        )
    return found


def _make_scheduler(database: Database, config: Config, meters: Meters | None) -> Scheduler:
    return Scheduler(
        database,
        history_days=config.history_days,
        dead_days=config.dead_days,
        audit_days=config.audit_days,
        meters=meters,
    )


def _open_artifacts(config: Config, database: "Database | HttpEngine") -> Artifacts | None:
    """Return the artifact store, or None for a worker over HTTP that has no store configured."""
    is_known = isinstance(database, Database) or config.artifacts is not None
    return open_artifacts(config) if is_known else None
