"""Report what the engine's own functions found: find_problems and find_unreadable."""

from collections.abc import Iterator, Sequence
from datetime import UTC

from jobforge.db.doctor.findings import Finding, Grade
from jobforge.types.diagnostics import InstallationProblem

_UPDATE = "update {0} set {2} where {1};  -- as a superuser; then set required values again"
_DELETE = "delete from {} where {};  -- as a superuser; then restart a worker to declare it again"
_REMOVED = '{"$unreadable": "removed"}'
# Columns that must stay valid for the engine, which reads their fields one by one.
_SHORTENED = {
    ("connector_configs", "secrets"): "{}",
    ("definitions", "overrides"): "{}",
    ("definitions", "parameters"): "{}",
    ("definitions", "registered"): "{}",
    ("operations", "progress"): '{"phase": "jobs"}',  # an erasure restarts
    ("workflows", "callbacks"): "{}",
    ("workflows", "counts"): "{}",
}
_ALL_CLEAR = {
    "definitions": "Live workers serve all waiting jobs",
    "schedules": "Schedules fire on time",
    "webhooks": "No webhook endpoint was disabled because of failures",
    "events": "Events are dispatched on time",
    "operations": "Bulk operations make progress",
    "blocked": "All blocked jobs wait for unfinished jobs",
}


def check_problems(problems: Sequence[InstallationProblem]) -> Iterator[Finding]:
    findings = [_finding_from_problem(each) for each in problems]
    for check, message in _ALL_CLEAR.items():
        matching = [each for each in findings if each.check == check]
        yield from matching or [Finding(check, Grade.OK, message)]


def _finding_from_problem(problem: InstallationProblem) -> Finding:
    """Return the finding for one row of find_problems."""
    since = f"{problem.since.astimezone(UTC):%Y-%m-%d %H:%M}Z"
    subject, detail, tenant = problem.subject, problem.detail, problem.tenant_id
    schedulers = "jobforge scheduler  -- or a worker without --no-scheduler"
    match problem.kind:
        case "overdue":
            message = f"Schedule '{subject}' of tenant {tenant} has been due since {since}"
            return Finding("schedules", Grade.FAILED, message, schedulers)
        case "faulty":
            message = f"Trigger '{subject}' of tenant {tenant} was disabled: {detail}"
            listed = f"jobforge triggers list --disabled --tenant {tenant}"
            fix = f"{listed}; then triggers edit and triggers enable"
            return Finding("schedules", Grade.WARNING, message, fix)
        case "webhook":
            message = (
                f"Webhook endpoint {subject} of tenant {tenant} was disabled at {since}: {detail}"
            )
            fix = f"jobforge webhooks edit {subject} --enable --tenant {tenant}"
            return Finding("webhooks", Grade.WARNING, message, fix)
        case "event":
            number = "1,000 or more" if detail == "1000" else detail
            message = f"Events waiting for dispatch: {number}, the oldest since {since}"
            return Finding("events", Grade.FAILED, message, schedulers)
        case "operation":
            message = (
                f"Operation {subject} ({detail}) of tenant {tenant} "
                f"has made no progress since {since}"
            )
            fix = "Start a server, or a worker with a database: they continue operations"
            return Finding("operations", Grade.FAILED, message, fix)
        case "blocked":
            message = (
                f"Job {subject} ({detail}) of tenant {tenant} is blocked, "
                "but all its parents are finished"
            )
            finding = Finding("blocked", Grade.FAILED, message, schedulers)
        case _:
            message = (
                f"Jobs of {subject} have been waiting in queue {detail} since {since}, "
                "but no live worker serves them"
            )
            fix = f"Start a worker that has {subject}, with --queues {detail}"
            finding = Finding("definitions", Grade.FAILED, message, fix)
    return finding


def check_values(unreadable: Sequence[InstallationProblem]) -> Iterator[Finding]:
    """Return findings for JSON values from find_unreadable."""
    for each in unreadable:
        subject, option = each.subject, f"--tenant {each.tenant_id}"
        if each.kind == "removed":
            yield Finding(
                "values",
                Grade.WARNING,
                f"The payload of job {subject} of tenant {each.tenant_id} was too long as JSON "
                "text and was removed; the job is dead",
                f"Enqueue the job again, then run: jobforge jobs cancel {subject} {option}",
            )
        elif each.kind == "job":
            yield Finding(
                "values",
                Grade.FAILED,
                f"{each.detail} of job {subject} of tenant {each.tenant_id} is too long as "
                "JSON text: it cannot be read, and pg_dump fails on a row of more than 1 GB",
                f"jobforge jobs cancel {subject} {option}, then jobforge jobs erase {subject} "
                f"{option}",
            )
        else:
            yield Finding(
                "values",
                Grade.FAILED,
                f"{each.detail} of the row in jobforge.{each.kind} with {subject} is too long as "
                "JSON text: it cannot be read, and pg_dump fails on a row of more than 1 GB",
                _repair(each),
            )
    if not unreadable:
        yield Finding(
            "values",
            Grade.OK,
            "All JSON values can be read as text (up to 50,000 rows of each table were checked)",
        )


def _repair(problem: InstallationProblem) -> str:
    """Return the statement that shortens the JSON values in one row of find_unreadable."""
    row = f"jobforge.{problem.kind}", problem.subject  # find_unreadable has quoted the subject
    if problem.kind == "declared_triggers":
        return _DELETE.format(*row)
    values = ", ".join(
        f"{column} = '{_SHORTENED.get((problem.kind, column), _REMOVED)}'"
        for column in problem.detail.split(", ")
    )
    return _UPDATE.format(*row, values)
