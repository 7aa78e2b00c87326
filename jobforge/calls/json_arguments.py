"""Encodes the JSON arrays that the engine takes: jobs to enqueue, tokens, outcome reports."""

from collections.abc import Iterable, Sequence

from jobforge.calls.call import JsonArgument
from jobforge.errors import Invalid, Json
from jobforge.types.jobs import JobRequest, Note, Outcome, OutcomeReport, Token
from jobforge.types.jsonb import encode, replace_unencodable


def encode_jobs(jobs: Sequence[JobRequest]) -> JsonArgument:
    """Encode jobs. Invalid has the field and the index, like the engine's own error."""
    try:
        return JsonArgument.from_value([job.to_json() for job in jobs], "jobs")
    except Invalid:
        refuse_faulty(jobs)
        raise


def encode_tokens(tokens: Iterable[Token]) -> JsonArgument:
    return JsonArgument.from_value([token._asdict() for token in tokens], "jobs")


def encode_notes(notes: Sequence[Note]) -> JsonArgument:
    try:
        return JsonArgument.from_value([note._asdict() for note in notes], "notes")
    except Invalid:
        worded = [note._replace(data=_sanitize_value(note.data)) for note in notes]
        return JsonArgument.from_value([note._asdict() for note in worded], "notes")


def encode_report(report: OutcomeReport) -> JsonArgument:
    return JsonArgument.from_value(sanitize_report(report).to_json(), "outcome")


def encode_reports(reports: Sequence[OutcomeReport]) -> JsonArgument:
    try:
        return JsonArgument.from_value([report.to_json() for report in reports], "outcomes")
    except Invalid:
        sanitized = [sanitize_report(report).to_json() for report in reports]
        return JsonArgument.from_value(sanitized, "outcomes")


def sanitize_report(report: OutcomeReport) -> OutcomeReport:
    """Return the report, or the closest report that can be sent: every attempt must be settled.

    Unencodable values in a failure's details are replaced by descriptions. A result must not be
    altered, so an unencodable result becomes a final failure, like a result that is too large.
    """
    if _find_fault(report.to_json()) is None:
        return report
    fault = _find_fault(report.result)
    if fault is not None:
        message = fault.message.replace("outcome", "The result", 1)
        return OutcomeReport(
            *report[:3],
            Outcome.FAILED,
            started_at=report.started_at,
            error={"type": "InvalidResult", "message": message},
            final=True,
        )
    return OutcomeReport(*report[:6], *(_sanitize_value(value) for value in report[6:]))


def _sanitize_value(value: Json) -> Json:
    return value if _find_fault(value) is None else replace_unencodable(value)


def _find_fault(value: Json, field: str = "outcome") -> Invalid | None:
    try:
        encode(value, field)
    except Invalid as fault:
        return fault
    return None


def refuse_faulty(jobs: Iterable[JobRequest]) -> None:
    """Raise Invalid, with the field and the index, for the first field that cannot be encoded."""
    for index, job in enumerate(jobs):
        for field, value in job.to_json().items():
            fault = _find_fault(value, field)
            if fault is not None:
                detail = {**fault.detail, "index": index}
                raise Invalid(fault.message, field=field, detail=detail, hint=fault.hint) from fault
