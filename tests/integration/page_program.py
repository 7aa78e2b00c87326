"""Run the Python blocks of a page from top to bottom in a separate process.

`python page_program.py PAGE`, with JOBFORGE_DATABASE_URL set. The blocks are one module; blocks
with `await` run in one event loop. A thread runs all enqueued jobs in the meantime.
"""

import ast
import asyncio
import inspect
import os
import re
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID, uuid4

import django  # type: ignore[import-untyped] # it has no types
from django.conf import settings  # type: ignore[import-untyped]
from psycopg.conninfo import conninfo_to_dict

from jobforge import JobForge, calls, db
from jobforge.sdk.context import Context
from jobforge.sdk.verdict import verdict_from_error, verdict_from_result
from jobforge.sdk.worker_requests import WorkerRequest
from jobforge.types.jobs import ClaimedJob, OutcomeReport

URL = os.environ["JOBFORGE_DATABASE_URL"]
WORKER = uuid4()


def main(page: Path) -> None:
    _configure_django()
    module = ModuleType("app")
    sys.modules["app"] = module
    stop = threading.Event()
    worker = threading.Thread(target=_work, args=(module, stop))
    with asyncio.Runner() as runner:
        try:
            for number, block in enumerate(_blocks(page.read_text(encoding="utf-8")), 1):
                _run(_with_database(block), f"{page.name}, example {number}", module, runner)
                if not worker.ident:
                    worker.start()
        finally:
            stop.set()
        worker.join()
        runner.run(module.jf.aclose())


def _blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def _with_database(block: str) -> str:
    """Return the block with its URLs replaced by the URL of this run's database."""
    for scheme in ("postgresql", "postgresql+psycopg"):
        foreign = f"{scheme}://app@db.example.com/app"
        block = block.replace(foreign, URL.replace("postgresql", scheme, 1))
    return block


def _run(block: str, name: str, module: ModuleType, runner: asyncio.Runner) -> None:
    registered = 0
    for statement in ast.parse(block, name).body:
        code = compile(
            ast.Module([statement], []), name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
        answer = eval(code, vars(module))  # noqa: S307 - the test runs this code
        if inspect.iscoroutine(answer):
            runner.run(answer)
        jf: JobForge | None = getattr(module, "jf", None)
        if jf is not None and len(jf.definitions) != registered:
            jf.register()
            registered = len(jf.definitions)


def _work(module: ModuleType, stop: threading.Event) -> None:
    jf: JobForge = module.jf
    with db.connect(URL) as conn:
        while not stop.wait(0.01):
            served = [name for each in jf.definitions.values() for name in each.served_versions]
            claiming = calls.claim_jobs(WORKER, {"default": 50, "mail": 50}, definitions=served)
            reports = [_attempt(jf, job) for job in db.run(conn, claiming)]
            db.run(conn, calls.complete_jobs(WORKER, reports))


def _attempt(jf: JobForge, job: ClaimedJob) -> OutcomeReport:
    definition = jf.definitions[job.definition]
    try:
        arguments = definition.parse_arguments_json(job.version, job.payload_json)
        answer = definition.invoke(Context(job, _NoChannel()), arguments)
        if inspect.isawaitable(answer):
            answer = asyncio.run(_await(answer))
        verdict = verdict_from_result(definition.dump(answer))
    except Exception as error:  # noqa: BLE001 - a worker continues after an error
        verdict = verdict_from_error(error, definition.settings)
    return OutcomeReport(
        *job.token,
        verdict.outcome,
        job.started_at,
        result=verdict.result,
        error=verdict.error,
        reason=verdict.reason,
        final=verdict.final,
        retry_in_s=verdict.retry_in_s,
        run_at=verdict.run_at,
    )


async def _await(answer: Any) -> Any:
    return await answer


class _NoChannel:
    """A channel that discards everything."""

    tenant_id = UUID(int=0)

    def note(self, kind: str, data: dict[str, Any]) -> None: ...

    def secret(self, name: str) -> str:
        return name

    def request(self, request: WorkerRequest[Any]) -> Any: ...

    async def request_async(self, request: WorkerRequest[Any]) -> Any: ...


def _configure_django() -> None:
    parts = conninfo_to_dict(URL)
    default = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts["dbname"],
        "USER": parts["user"],
        "HOST": parts["host"],
        "PORT": parts["port"],
    }
    settings.configure(DATABASES={"default": default}, USE_TZ=True, LOGGING_CONFIG=None)
    django.setup()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
