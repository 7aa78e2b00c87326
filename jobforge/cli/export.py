"""Jobs as a file: everything about each, a line of JSON or of CSV. Secrets in it are hidden."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import chain
from typing import TYPE_CHECKING

from jobforge.cli import job_view, output
from jobforge.cli.tables import chosen_fields
from jobforge.errors import Json, NotFound

if TYPE_CHECKING:
    from jobforge.cli.tenant_session import Session
    from jobforge.types.jobs import JobListing

Write = Callable[[Sequence[str], Iterable[output.Row]], Iterator[bytes]]


def export(
    session: "Session",
    pages: "Iterable[Sequence[JobListing]]",
    names: Sequence[str],
    write: Write,
    to: str,
) -> int:
    """Into a file, or to stdout; answers how many. `names` are those of the fields."""
    count = 0

    def counted() -> Iterator[output.Row]:
        nonlocal count
        for row in _documents(session, pages, names):
            yield row
            count += 1
            tell(count, None)

    with output.progress("exporting", in_data=to == "-" and output.is_terminal()) as tell:
        output.save(write(names, counted()), to)
    return count


def fields_named(text: str | None) -> list[str]:
    """Those that --fields names; without it, all that a job has."""
    from jobforge.types.jobs import Job

    return [each.name for each in fields(Job)] if text is None else chosen_fields(text, Job)


def write_json_lines(names: Sequence[str], rows: Iterable[output.Row]) -> Iterator[bytes]:
    for row in rows:
        yield f"{output.line_of_json({name: row[name] for name in names})}\n".encode()


def write_csv(names: Sequence[str], rows: Iterable[output.Row]) -> Iterator[bytes]:
    from jobforge.connectors import report

    columns = [report.Column(name, name) for name in names]
    cells = ({name: _cell(row[name]) for name in names} for row in rows)
    yield from report.write_csv(report.Table(columns, cells))


WRITERS: dict[str, Write] = {"jsonl": write_json_lines, "csv": write_csv}


def _cell(value: Json) -> Json:
    """As report takes it: what has no form in a cell is JSON, ids and times are texts."""
    if isinstance(value, dict | list):
        return output.line_of_json(value)
    return value if isinstance(value, int | float) else output.text_of(value)


def _documents(
    session: "Session", pages: "Iterable[Sequence[JobListing]]", names: Sequence[str]
) -> Iterator[output.Row]:
    """A job is asked for by itself only when something of it is wanted that no list has."""
    from jobforge.types.jobs import JobListing

    jobs = chain.from_iterable(pages)
    if {each.name for each in fields(JobListing)}.issuperset(names):
        return map(job_view.listed, jobs)
    return _whole(session, jobs)


def _whole(session: "Session", jobs: "Iterable[JobListing]") -> Iterator[output.Row]:
    """Each as it is when its turn comes. One whose retention has ended by then is left out."""
    from jobforge import calls

    for job in jobs:
        try:
            found = session.run(calls.get_job(job.id))
        except NotFound:
            continue
        yield job_view.whole(found.job)
