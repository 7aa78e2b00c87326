"""The engine's public functions, one typed function for each, under the same names.

A function here only builds a Call, which is a value: the SQL, its parameters, and how its rows are
read. db.py runs it on our own connections, sync or async; anything else that can run SQL may too.
Arguments that cannot be sent raise Invalid when the call is built.

Functions on a tenant's jobs need to know which tenant. `call.for_tenant(id)` sets it for the call's
transaction and serves every login. The argument `tenant_id` names it with the call alone and
touches no setting: for logins in jobforge_service, on connections that are not ours.
"""

from jobforge.calls.call import Call
from jobforge.calls.jobs import (
    cancel_job,
    cancel_jobs,
    edit_job,
    enqueue_job,
    enqueue_jobs,
    explain_job,
    get_job,
    list_jobs,
    list_notes,
    reschedule_job,
    retry_job,
    retry_jobs,
    summarize,
)
from jobforge.calls.operation import (
    apply_retention,
    delete_tenant,
    drain_worker,
    ensure_partitions,
    find_tenant,
    list_tenants,
    list_workers,
    override_definition,
    pause_definition,
    pause_queue,
    pause_tenant,
    put_queue,
    put_tenant,
    regate_jobs,
    resume_definition,
    resume_queue,
    resume_tenant,
    stop_worker,
)
from jobforge.calls.work import (
    claim_jobs,
    complete_job,
    complete_jobs,
    heartbeat_job,
    heartbeat_jobs,
    note_jobs,
    put_definition,
    reap_jobs,
    register_worker,
    release_jobs,
    succeed_jobs,
    unregister_worker,
)

__all__ = [
    "Call",
    "apply_retention",
    "cancel_job",
    "cancel_jobs",
    "claim_jobs",
    "complete_job",
    "complete_jobs",
    "delete_tenant",
    "drain_worker",
    "edit_job",
    "enqueue_job",
    "enqueue_jobs",
    "ensure_partitions",
    "explain_job",
    "find_tenant",
    "get_job",
    "heartbeat_job",
    "heartbeat_jobs",
    "list_jobs",
    "list_notes",
    "list_tenants",
    "list_workers",
    "note_jobs",
    "override_definition",
    "pause_definition",
    "pause_queue",
    "pause_tenant",
    "put_definition",
    "put_queue",
    "put_tenant",
    "reap_jobs",
    "regate_jobs",
    "register_worker",
    "release_jobs",
    "reschedule_job",
    "resume_definition",
    "resume_queue",
    "resume_tenant",
    "retry_job",
    "retry_jobs",
    "stop_worker",
    "succeed_jobs",
    "summarize",
    "unregister_worker",
]
