"""`connector.report.generate`: writes rows into a file, as the job's artifact.

The rows come from the payload, another job's result, an artifact, or a list of jobs, always of the
job's own tenant. A thread reads and writes them in chunks; it runs each engine call in the event
loop.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import asdict
from datetime import datetime
from itertools import chain, islice
from threading import Event
from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from jobforge import calls
from jobforge.artifacts import Artifacts, marker_from_json
from jobforge.artifacts.keys import PREFIX, new_key, read_ref
from jobforge.calls import Call
from jobforge.connectors.connector import Connector, ConnectorJob
from jobforge.connectors.report import (
    Column,
    ReportRow,
    Table,
    infer_columns,
    write_csv,
    write_html,
    write_json,
)
from jobforge.errors import Conflict, Invalid, InvalidPayload, Json, NotFound, PayloadTooLarge
from jobforge.redact import mask
from jobforge.sdk.outcome_exceptions import Dead
from jobforge.types.jobs import Job, JobFilter, JobListing, State
from jobforge.types.jsonb import decode

_MOST_ROWS = 1_000_000
_PAGE = 200
# Number of rows read to infer the columns.
_SAMPLED_ROWS = 100
# A larger artifact is read line by line, one row per line.
_READ_WHOLE = 8 * 1024**2
_LONGEST_LINE = 1024**2
_CALL_TIMEOUT_S = 60.0

# Separate from the worker's threads, because a report may take minutes.
_THREADS = ThreadPoolExecutor(4, "report")

_WRITERS: dict[str, Callable[[Table], Iterator[bytes]]] = {
    "csv": write_csv,
    "html": write_html,
    "json": write_json,
}

Text = Annotated[str, Field(min_length=1, max_length=200)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class GivenRows(_Part):
    """Rows in the payload."""

    rows: Annotated[list[dict[str, Json]], Field(max_length=100_000)]


class ResultOfJob(_Part):
    """The result of a job; `path` selects the rows in it."""

    job_id: UUID
    path: Text | None = None


class RowsOfArtifact(_Part):
    """A JSON file: an array, one row per line, or a report of format json."""

    artifact: Annotated[str, Field(pattern=f"^{PREFIX}", max_length=1000)]
    path: Text | None = None


class ReportJobFilter(_Part):
    """Filter of jobs, as for the list of jobs."""

    state: Annotated[list[str], Field(max_length=9)] | None = None
    definition: Text | None = None
    queue: Text | None = None
    tag: Text | None = None
    source: Text | None = None
    correlation_id: Text | None = None
    created_after: AwareDatetime | None = None
    created_before: AwareDatetime | None = None


class ListOfJobs(_Part):
    """Jobs of the tenant, newest first."""

    jobs: ReportJobFilter


class ColumnChoice(_Part):
    field: Text
    title: Text | None = None


class ReportRequest(_Part):
    """The payload."""

    format: Literal["csv", "html", "json"]
    source: GivenRows | ResultOfJob | RowsOfArtifact | ListOfJobs
    columns: Annotated[list[Text | ColumnChoice], Field(min_length=1, max_length=200)] | None = None
    title: Text | None = None
    max_rows: Annotated[int, Field(ge=1, le=_MOST_ROWS)] = 100_000


async def run(job: ConnectorJob[ReportRequest]) -> Json:
    engine = _ThreadedEngine(job)
    try:
        return await asyncio.get_running_loop().run_in_executor(_THREADS, _make_report, job, engine)
    except PayloadTooLarge as error:
        raise Dead(error.message) from error
    except Invalid as error:
        raise InvalidPayload(error.message, field=error.field) from error
    finally:
        engine.end()


class _ThreadedEngine:
    """Runs engine calls from the thread that writes a report; raises once the job has ended."""

    def __init__(self, job: ConnectorJob[ReportRequest]) -> None:
        self._job = job
        self._loop = asyncio.get_running_loop()
        self._is_over = Event()

    def run(self, call: Call[Any]) -> Any:  # noqa: ANN401 - the call's result
        self.check()
        future = asyncio.run_coroutine_threadsafe(self._job.call(call), self._loop)
        return future.result(_CALL_TIMEOUT_S)

    def check(self) -> None:
        """Raise CancelledError if the job has ended, to stop the thread."""
        if self._is_over.is_set():
            raise CancelledError

    def end(self) -> None:
        self._is_over.set()


def _make_report(job: ConnectorJob[ReportRequest], engine: _ThreadedEngine) -> dict[str, Json]:
    request, artifacts = job.payload, job.artifacts
    rows = _rows(request, job.tenant_id, artifacts, engine)
    first = list(islice(rows, _SAMPLED_ROWS))
    columns = (
        infer_columns(first) if request.columns is None else [_column(c) for c in request.columns]
    )
    table = Table(
        columns, _check_periodically(chain(first, rows), engine), request.title, request.max_rows
    )
    key = new_key(job.tenant_id, job.job_id, f"report-{job.claimed.lease}.{request.format}")
    marker = artifacts.put(key, _WRITERS[request.format](table))
    return {
        "artifact": marker.ref,
        "format": request.format,
        "rows": table.count,
        "truncated": table.is_truncated,
        "bytes": marker.bytes,
        "sha256": marker.sha256,
    }


def _check_periodically(rows: Iterator[ReportRow], engine: _ThreadedEngine) -> Iterator[ReportRow]:
    for number, row in enumerate(rows):
        if number % _PAGE == 0:
            engine.check()
        yield row


def _column(choice: str | ColumnChoice) -> Column:
    if isinstance(choice, str):
        return Column(choice, choice)
    return Column(choice.field, choice.title or choice.field)


def _rows(
    request: ReportRequest, tenant_id: UUID, artifacts: Artifacts, engine: _ThreadedEngine
) -> Iterator[ReportRow]:
    match request.source:
        case GivenRows(rows=rows):
            return iter(rows)
        case ResultOfJob(job_id=job_id, path=path):
            return _rows_in(_result(artifacts, _job(engine, job_id)), path)
        case RowsOfArtifact(artifact=ref, path=path):
            return _rows_of_file(artifacts, read_ref(ref, tenant_id).path, path)
        case ListOfJobs(jobs=which):
            return _jobs(engine, which)


def _job(engine: _ThreadedEngine, job_id: UUID) -> Job:
    try:
        job: Job = engine.run(calls.get_job(job_id)).job
    except NotFound:
        raise Dead(f"Job {job_id} not found") from None
    if job.state in {State.DEAD, State.CANCELED}:
        raise Dead(f"Job {job_id} is {job.state} and has no result")
    if job.state is not State.SUCCEEDED:
        raise Conflict(f"Job {job_id} is not finished yet")
    return job


def _result(artifacts: Artifacts, job: Job) -> Json:
    marker = marker_from_json(job.result)
    return job.result if marker is None else decode(artifacts.read(marker, job.tenant_id))


def _rows_in(document: Json, path: str | None) -> Iterator[ReportRow]:
    for name in path.split(".") if path else ():
        document = document.get(name) if isinstance(document, dict) else None
    if isinstance(document, list):
        return (row if isinstance(row, dict) else {"value": row} for row in document)
    if isinstance(document, dict):
        return iter([document])
    raise Dead("rows must be a list of objects, or an object")


def _rows_of_file(artifacts: Artifacts, file: str, path: str | None) -> Iterator[ReportRow]:
    if artifacts.store.size(file) > _READ_WHOLE:
        return _rows_on_lines(artifacts.store.open(file))
    content = b"".join(artifacts.store.open(file))
    try:
        document = decode(content)
    except ValueError:
        return _rows_on_lines(iter([content]))
    is_report = isinstance(document, dict) and {"columns", "rows"} <= document.keys()
    return _rows_in(document, path or ("rows" if is_report else None))


def _rows_on_lines(pieces: Iterator[bytes]) -> Iterator[ReportRow]:
    """Yield rows of JSON Lines, or of an array with one element per line."""
    for line in _lines(pieces):
        text = line.strip().rstrip(b",")
        if not text or text in {b"[", b"]", b"]}"} or text.endswith(b"["):
            continue
        try:
            row = orjson.loads(text)
        except ValueError:
            raise Dead("The artifact is not JSON with one row per line") from None
        yield row if isinstance(row, dict) else {"value": row}


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if len(rest) > _LONGEST_LINE:
            raise Dead("A line of the artifact exceeds the size limit of a row")
    yield rest


def _jobs(engine: _ThreadedEngine, which: ReportJobFilter) -> Iterator[ReportRow]:
    job_filter = JobFilter(**which.model_dump(exclude_none=True))
    before: UUID | None = None
    while True:
        page: list[JobListing] = engine.run(calls.list_jobs(job_filter, limit=_PAGE, before=before))
        yield from map(_row_from_listing, page)
        if len(page) < _PAGE:
            return
        before = page[-1].id


def _row_from_listing(job: JobListing) -> ReportRow:
    """Return a job as the list of jobs shows it: secrets are masked."""
    fields = {**asdict(job), "error": mask(job.error)}
    return {name: _text(value) for name, value in fields.items()}


def _text(value: Any) -> Json:  # noqa: ANN401 - the value of any column
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


REPORT_GENERATE = Connector(
    key="connector.report.generate",
    payload=ReportRequest,
    run=run,
    description="Writes rows into a file: CSV, HTML or JSON.",
    timeout_s=900,
)
