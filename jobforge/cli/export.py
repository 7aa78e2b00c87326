"""Export jobs as lines of JSON or as CSV, with secrets redacted."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import chain

from jobforge import calls
from jobforge.cli import job_view, output
from jobforge.cli.context import TenantSession
from jobforge.cli.listing_output import parse_field_names
from jobforge.errors import Json, NotFound
from jobforge.types.jobs import Job, JobListing

RowWriter = Callable[[Sequence[str], Iterable[output.OutputRow]], Iterator[bytes]]


def export_jobs(
    session: TenantSession,
    pages: Iterable[Sequence[JobListing]],
    names: Sequence[str],
    write: RowWriter,
    to: str,
) -> int:
    """Write the fields `names` of the jobs to a file, or to stdout for `-`. Return their number."""
    count = 0

    def counted() -> Iterator[output.OutputRow]:
        nonlocal count
        for row in _read_documents(session, pages, names):
            yield row
            count += 1
            report(count, None)

    with output.show_progress(
        "exporting", data_on_terminal=to == "-" and output.is_terminal()
    ) as report:
        output.save(write(names, counted()), to)
    return count


def parse_job_fields(text: str | None) -> list[str]:
    """Return the field names in --fields, or all fields of a job."""
    return [each.name for each in fields(Job)] if text is None else parse_field_names(text, Job)


def write_json_lines(names: Sequence[str], rows: Iterable[output.OutputRow]) -> Iterator[bytes]:
    for row in rows:
        yield f"{output.to_json_line({name: row[name] for name in names})}\n".encode()


def write_csv(names: Sequence[str], rows: Iterable[output.OutputRow]) -> Iterator[bytes]:
    from jobforge.connectors import report

    columns = [report.Column(name, name) for name in names]
    cells = ({name: _to_report_cell(row[name]) for name in names} for row in rows)
    yield from report.write_csv(report.Table(columns, cells))


WRITERS: dict[str, RowWriter] = {"jsonl": write_json_lines, "csv": write_csv}


def _to_report_cell(value: Json) -> Json:
    """Convert a value for report.write_csv: structures to JSON, IDs and times to strings."""
    if isinstance(value, dict | list):
        return output.to_json_line(value)
    return value if isinstance(value, int | float) else output.to_text(value)


def _read_documents(
    session: TenantSession, pages: Iterable[Sequence[JobListing]], names: Sequence[str]
) -> Iterator[output.OutputRow]:
    """Return the jobs' documents. Jobs are read one by one only for fields that lists lack."""
    jobs = chain.from_iterable(pages)
    if {each.name for each in fields(JobListing)}.issuperset(names):
        return map(job_view.to_listing_document, jobs)
    return _read_whole_jobs(session, jobs)


def _read_whole_jobs(
    session: TenantSession, jobs: Iterable[JobListing]
) -> Iterator[output.OutputRow]:
    """Yield each job as it is when it is read; skip jobs that retention has deleted by then."""
    for job in jobs:
        try:
            found = session.run(calls.get_job(job.id))
        except NotFound:
            continue
        yield job_view.to_job_document(found.job)
