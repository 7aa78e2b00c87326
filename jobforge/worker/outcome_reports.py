"""Build the reports of finished runs that the settler sends: plain successes and all others.

Measures results and errors, because a large result is uploaded first, and a batch is limited in
size. Does no I/O, except for a log line about a report that the engine rejected.
"""

from collections.abc import Sequence
from uuid import UUID

import orjson

from jobforge import calls
from jobforge.calls import Call
from jobforge.errors import Invalid, Json
from jobforge.observability import logs
from jobforge.payloads.size import RESULT_LIMIT, fits
from jobforge.redact import mask, mask_text
from jobforge.sdk.verdict import Verdict
from jobforge.types.jobs import ClaimedJob, Outcome, OutcomeReport
from jobforge.types.jsonb import encode
from jobforge.worker.leases import LeaseKey
from jobforge.worker.runner_protocol import SUCCEEDED, Report

_UNREADABLE = "InvalidOutcome"

RELEASED = Verdict(Outcome.RELEASED)

EndedRun = tuple[ClaimedJob, Report, float]  # the float: run time in seconds


def lease_key(ended: EndedRun) -> LeaseKey:
    job = ended[0]
    return job.job_id, job.lease


def is_plain_success(report: Report) -> bool:
    if report is SUCCEEDED:
        return True
    verdict = report.verdict
    is_success = verdict is not None and verdict.outcome is Outcome.SUCCEEDED
    return is_success and report[1:] == SUCCEEDED[1:]


def build_succeed_call(worker_id: UUID, ended: Sequence[EndedRun]) -> Call[list[LeaseKey]]:
    tokens = [job[:3] for job, _, _ in ended]  # same as job.token, three times as fast
    if all(report is SUCCEEDED for _, report, _ in ended):
        return calls.succeed_jobs(worker_id, tokens)
    results = [report.verdict and report.verdict.result for _, report, _ in ended]
    return calls.succeed_jobs(worker_id, tokens, results)


def build_reports(ended: Sequence[EndedRun]) -> list[OutcomeReport]:
    return [_build_report(job, report) for job, report, _ in ended]


def _build_report(job: ClaimedJob, report: Report) -> OutcomeReport:
    """Return the report to send. The job's secrets were redacted where the error was created."""
    verdict = report.verdict or RELEASED
    return OutcomeReport(
        *job.token,
        verdict.outcome,
        job.started_at,
        verdict.result,
        mask(verdict.error),
        verdict.reason and mask_text(verdict.reason),
        verdict.final,
        verdict.retry_in_s,
        verdict.run_at,
        report.artifact_ref,
        report.exit_code,
        report.pid,
        report.peak_memory_bytes,
        report.cpu_ms,
        report.stdout_tail,
        report.stderr_tail,
        verdict.wait,
    )


def encode_result(report: Report) -> bytes:
    """Encode the result as JSON to measure it; empty if it is surely small or not valid JSON."""
    if report.large_result is not None:
        return report.large_result
    result: Json = report.verdict.result if report.verdict else None
    if result is None or isinstance(result, int | float):
        return b""
    try:
        return orjson.dumps(result)
    except TypeError:  # complete_jobs' encoder rejects it, and it is settled as a failure
        return b""


def is_large(report: Report) -> bool:
    """Whether the result is too large for a row.

    A result that jsonb cannot store is not large: it is sent, and settled as a failure.
    """
    if report.large_result is not None:
        return True
    try:
        text = encode(report.verdict and report.verdict.result, "result")
    except Invalid:
        return False
    return not fits(text, RESULT_LIMIT)


def weight_of_error(report: Report) -> int:
    error = report.verdict.error if report.verdict else None
    return sum(len(each) for each in (error or {}).values() if isinstance(each, str))


def weight_of_tails(report: Report) -> int:
    return len(report.stdout_tail or "") + len(report.stderr_tail or "")


def replace_refused(refused: EndedRun, error: Exception) -> list[EndedRun]:
    """Return a final failure in place of an outcome that the engine rejected.

    Return nothing if the rejected outcome was such a replacement already.
    """
    job, report, duration_s = refused
    logs.emit("outcome.refused", level="error", **logs.job_fields(job), error=repr(error))
    if report.verdict is not None and (report.verdict.error or {}).get("type") == _UNREADABLE:
        return []
    failure = {"type": _UNREADABLE, "message": str(error)}
    return [(job, Report(Verdict(Outcome.FAILED, error=failure, final=True)), duration_s)]
