"""Calls on a tenant's dead jobs, grouped by failure."""

from collections.abc import Mapping
from uuid import UUID

from jobforge.calls.call import Call, build_call
from jobforge.calls.results import NOTHING, many
from jobforge.errors import Json
from jobforge.types.failures import FailureFilter, FailureGroup

EVERY_FAILURE = FailureFilter()


def list_failures(
    which: FailureFilter = EVERY_FAILURE,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[FailureGroup]]:
    """List groups, newest job first; `before` is the last group's sample_job_id."""
    return build_call(
        "list_failures",
        many(FailureGroup),
        filter=which,
        limit=limit,
        before=before,
        tenant_id=tenant_id,
    )


def annotate_failure(
    fingerprint: str, changes: Mapping[str, Json], *, tenant_id: UUID | None = None
) -> Call[None]:
    """Set note, snoozed_until or resolved_in of a failure group; None removes a value."""
    return build_call(
        "annotate_failure", NOTHING, fingerprint=fingerprint, changes=changes, tenant_id=tenant_id
    )
