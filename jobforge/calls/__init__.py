"""The engine's public functions, one typed function for each, under the same names.

A function here only builds a Call, which is a value: the SQL, its parameters, and how its rows are
read. db.py runs it on our own connections, sync or async; anything else that can run SQL may too.
Arguments that cannot be sent raise Invalid when the call is built.

Functions on a tenant's jobs need to know which tenant. `call.for_tenant(id)` sets it for the call's
transaction and serves every login. The argument `tenant_id` names it with the call alone and
touches no setting: for logins in jobforge_service, on connections that are not ours.
"""

from jobforge.calls.bulk import (
    advance_operations,
    cancel_operation,
    count_jobs,
    get_operation,
    list_operations,
    start_operation,
)
from jobforge.calls.call import Call
from jobforge.calls.catalogue import (
    get_definition,
    list_audit,
    list_definitions,
    list_queues,
)
from jobforge.calls.failures import (
    annotate_failure,
    list_failures,
)
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
from jobforge.calls.keys import (
    create_api_key,
    find_api_key,
    list_api_keys,
    revoke_api_key,
    rotate_api_key,
    touch_api_key,
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
from jobforge.calls.requests import (
    enqueue_jobs_once,
    note_access,
    take_request,
)
from jobforge.calls.stream import count_states, find_worker, read_stream
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
    "advance_operations",
    "annotate_failure",
    "apply_retention",
    "cancel_job",
    "cancel_jobs",
    "cancel_operation",
    "claim_jobs",
    "complete_job",
    "complete_jobs",
    "count_jobs",
    "count_states",
    "create_api_key",
    "delete_tenant",
    "drain_worker",
    "edit_job",
    "enqueue_job",
    "enqueue_jobs",
    "enqueue_jobs_once",
    "ensure_partitions",
    "explain_job",
    "find_api_key",
    "find_tenant",
    "find_worker",
    "get_definition",
    "get_job",
    "get_operation",
    "heartbeat_job",
    "heartbeat_jobs",
    "list_api_keys",
    "list_audit",
    "list_definitions",
    "list_failures",
    "list_jobs",
    "list_notes",
    "list_operations",
    "list_queues",
    "list_tenants",
    "list_workers",
    "note_access",
    "note_jobs",
    "override_definition",
    "pause_definition",
    "pause_queue",
    "pause_tenant",
    "put_definition",
    "put_queue",
    "put_tenant",
    "read_stream",
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
    "revoke_api_key",
    "rotate_api_key",
    "start_operation",
    "stop_worker",
    "succeed_jobs",
    "summarize",
    "take_request",
    "touch_api_key",
    "unregister_worker",
]
