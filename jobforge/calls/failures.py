"""Calls on a tenant's dead jobs, grouped by failure."""

from collections.abc import Mapping
from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.call import Call
from jobforge.calls.rows import Rows
from jobforge.errors import Json
from jobforge.types.failures import FailureFilter, FailureGroup
from jobforge.types.jsonb import encode

EVERY_FAILURE = FailureFilter()


def list_failures(
    which: FailureFilter = EVERY_FAILURE,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[FailureGroup]]:
    """List groups, newest job first; `before` is the last group's sample_job_id."""
    return Call(
        """
        select fingerprint, definition, jobs, first_seen, last_seen, sample_job_id, error, note,
               snoozed_until, resolved_in, versions, hourly, build, has_recurred
          from jobforge.list_failures(%s::jsonb, %s::integer, %s, %s)
        """,
        (encode(which.to_json(), "filter"), limit, before, tenant_id),
        _failures,
    )


def annotate_failure(
    fingerprint: str, changes: Mapping[str, Json], *, tenant_id: UUID | None = None
) -> Call[None]:
    """Set note, snoozed_until or resolved_in of a failure group; None removes a value."""
    return Call(
        "select jobforge.annotate_failure(%s, %s::jsonb, %s)",
        (fingerprint, encode(dict(changes), "changes"), tenant_id),
        rows.nothing,
    )


def _failures(rows: Rows) -> list[FailureGroup]:
    return [FailureGroup(*row) for row in rows]
