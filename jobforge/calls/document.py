"""The JSON arrays that the engine takes: jobs to enqueue, tokens, outcome reports."""

from collections.abc import Iterable, Sequence

from jobforge.errors import Invalid, Json
from jobforge.job import JobRequest, Outcome, OutcomeReport, Token
from jobforge.jsonb import encode, legible


def encode_jobs(jobs: Sequence[JobRequest]) -> str:
    """Invalid names the field and the index, as the engine itself does."""
    try:
        return encode([job.to_json() for job in jobs], "jobs")
    except Invalid:
        for index, job in enumerate(jobs):
            _refuse_faulty(index, job)
        raise


def encode_tokens(tokens: Iterable[Token]) -> str:
    return encode([token._asdict() for token in tokens], "jobs")


def encode_report(report: OutcomeReport) -> str:
    return encode(storable(report).to_json(), "outcome")


def encode_reports(reports: Sequence[OutcomeReport]) -> str:
    try:
        return encode([report.to_json() for report in reports], "outcomes")
    except Invalid:
        return encode([storable(report).to_json() for report in reports], "outcomes")


def storable(report: OutcomeReport) -> OutcomeReport:
    """The report if it can be sent, else the next best: an attempt has to be settled somehow.

    What describes a failure is put into words. A result must be kept as it is or not at all, so
    one that cannot be is a final failure, as one that is too large is for the engine.
    """
    if _fault(report.to_json()) is None:
        return report
    fault = _fault(report.result)
    if fault is not None:
        message = fault.message.replace("outcome", "the result", 1)
        return OutcomeReport(
            *report[:3],
            Outcome.FAILED,
            started_at=report.started_at,
            error={"type": "InvalidResult", "message": message},
            final=True,
        )
    return OutcomeReport(*report[:6], *(_worded(value) for value in report[6:]))


def _worded(value: Json) -> Json:
    return value if _fault(value) is None else legible(value)


def _fault(value: Json) -> Invalid | None:
    try:
        encode(value, "outcome")
    except Invalid as fault:
        return fault
    return None


def _refuse_faulty(index: int, job: JobRequest) -> None:
    for field, value in job.to_json().items():
        try:
            encode(value, field)
        except Invalid as fault:
            raise Invalid(fault.message, field=field, detail={"index": index}) from fault
