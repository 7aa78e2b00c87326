"""What a call's rows become. Columns come in the order in which calls.py selects them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from operator import itemgetter
from typing import Any, TypeVar, get_args, get_type_hints
from uuid import UUID

from jobforge.condition import AppliedFile, Gauge, Trouble
from jobforge.control import (
    Allowance,
    ApiKey,
    AuditEntry,
    ConnectorConfig,
    DefinitionInfo,
    DefinitionListing,
    EnqueuedOnce,
    FailureGroup,
    FoundKey,
    OpenConfig,
    Operation,
    OperationKind,
    OperationState,
    OperationStep,
    QueueInfo,
    Role,
    TenantWrappedKey,
    WrappedKey,
)
from jobforge.errors import Json
from jobforge.event import (
    DeliveryOutcome,
    Event,
    EventDelivery,
    EventListing,
    EventTrigger,
    PendingEvent,
    PendingEvents,
)
from jobforge.job import (
    Attempt,
    Beat,
    BeatStatus,
    ClaimedJob,
    Enqueued,
    EnqueueStatus,
    Explanation,
    Heartbeat,
    Job,
    JobEvent,
    JobHistory,
    JobListing,
    Membership,
    Noted,
    Outcome,
    Reaped,
    Relative,
    SaveStatus,
    Settled,
    State,
    Step,
    StoredStep,
    SummaryLine,
    SweepPosition,
    TenantInfo,
    WorkerCommand,
    WorkerInfo,
)
from jobforge.statistics import Statistic, Usage
from jobforge.stream import Happening, QueueCount, StreamPage
from jobforge.trigger import (
    CatchUp,
    DueSchedules,
    Firing,
    FiringKind,
    FiringOutcome,
    Overlap,
    Trigger,
    TriggerType,
    read_due,
)
from jobforge.webhook import Delivery, DeliveryState, OpenDelivery, Webhook, WebhookEvent
from jobforge.workflow import (
    Family,
    Lineage,
    MadeBatch,
    MadeWorkflow,
    NodeInfo,
    ParentJob,
    WorkflowDetail,
    WorkflowInfo,
    WorkflowState,
)

# What a column holds is known by its position alone.
Row = tuple[Any, ...]
Rows = Sequence[Row]
T = TypeVar("T")

# Jobs come by the thousand, and calling an enum takes as long as all else about one.
_STATUSES = {status.value: status for status in EnqueueStatus}
_STATES = {state.value: state for state in State}


def nothing(_: Rows) -> None:
    """For functions that return void."""


def value(rows: Rows) -> Any:  # noqa: ANN401 - the caller's Call says what it is
    """The one column of the one row."""
    return rows[0][0]


def column(rows: Rows) -> list[Any]:
    """The one column of all rows."""
    return [row[0] for row in rows]


def state(rows: Rows) -> State:
    return State(rows[0][0])


def state_if_any(rows: Rows) -> State | None:
    return None if rows[0][0] is None else State(rows[0][0])


def enqueued(rows: Rows) -> list[Enqueued]:
    # The engine answers keys it found taken first; callers get the order of their request.
    ordered = sorted(rows, key=itemgetter(0))
    return [Enqueued(job_id, _STATUSES[status]) for _, job_id, status in ordered]


def enqueued_one(rows: Rows) -> Enqueued:
    job_id, status = rows[0]
    return Enqueued(job_id, EnqueueStatus(status))


def claimed(rows: Rows) -> list[ClaimedJob]:
    return list(map(ClaimedJob._make, rows))


def settled(rows: Rows) -> list[Settled]:
    return [
        Settled(job_id, lease, status == "lost", _STATES[state] if state else None)
        for job_id, lease, status, state in rows
    ]


def unsettled(rows: Rows) -> list[tuple[UUID, int]]:
    """Ids and leases."""
    return list(rows)


def noted(rows: Rows) -> list[Noted]:
    return [Noted(job_id, lease, status == "lost") for job_id, lease, status in rows]


def saved(rows: Rows, steps: Sequence[Step]) -> list[SaveStatus]:
    # The engine answers in the order in which it locked the jobs.
    told = {row[:4]: SaveStatus(row[4]) for row in rows}
    return [told[step.job_id, step.lease, step.name, step.index] for step in steps]


def steps(rows: Rows) -> list[StoredStep]:
    return [StoredStep(*row) for row in rows]


def reaped(rows: Rows) -> list[Reaped]:
    return [
        Reaped(tenant_id, job_id, lease, State(state)) for tenant_id, job_id, lease, state in rows
    ]


def beat(rows: Rows) -> BeatStatus:
    return BeatStatus(rows[0][0])


def heartbeat(rows: Rows) -> Heartbeat:
    command = WorkerCommand.UNKNOWN
    jobs = []
    for job_id, lease, status in rows:
        if job_id is None:  # the row that speaks of the worker itself
            command = WorkerCommand(status)
        else:
            jobs.append(Beat(job_id, lease, BeatStatus(status)))
    return Heartbeat(command, jobs)


def listings(rows: Rows) -> list[JobListing]:
    return [JobListing(job_id, State(state), *others) for job_id, state, *others in rows]


def events(rows: Rows) -> list[JobEvent]:
    return [JobEvent(*row) for row in rows]


def summary(rows: Rows) -> list[SummaryLine]:
    return [SummaryLine(queue, State(state), *others) for queue, state, *others in rows]


def explanations(rows: Rows) -> list[Explanation]:
    return [Explanation(*row) for row in rows]


def workers(rows: Rows) -> list[WorkerInfo]:
    return [WorkerInfo(*row) for row in rows]


def tenants(rows: Rows) -> list[TenantInfo]:
    return [TenantInfo(*row) for row in rows]


def api_keys(rows: Rows) -> list[ApiKey]:
    return [
        ApiKey(key_id, tenant_id, name, Role(role), *others)
        for key_id, tenant_id, name, role, *others in rows
    ]


def found_key(rows: Rows) -> FoundKey | None:
    if not rows:
        return None
    key_id, tenant_id, role, *others = rows[0]
    return FoundKey(key_id, tenant_id, Role(role), *others)


def definitions(rows: Rows) -> list[DefinitionListing]:
    return [DefinitionListing(*row) for row in rows]


def definition(rows: Rows) -> DefinitionInfo:
    return DefinitionInfo(*rows[0])


def queues(rows: Rows) -> list[QueueInfo]:
    return [QueueInfo(*row) for row in rows]


def audit(rows: Rows) -> list[AuditEntry]:
    return [AuditEntry(*row) for row in rows]


def statistics(rows: Rows) -> list[Statistic]:
    return [Statistic(*row) for row in rows]


def usages(rows: Rows) -> list[Usage]:
    return [Usage(*row) for row in rows]


def failures(rows: Rows) -> list[FailureGroup]:
    return [FailureGroup(*row) for row in rows]


def operations(rows: Rows) -> list[Operation]:
    return [
        Operation(operation_id, OperationKind(kind), OperationState(state), *others)
        for operation_id, kind, state, *others in rows
    ]


def operation(rows: Rows) -> Operation:
    return operations(rows)[0]


def operation_state(rows: Rows) -> OperationState:
    return OperationState(rows[0][0])


def operation_step(rows: Rows) -> OperationStep | None:
    if not rows:
        return None
    tenant_id, operation_id, state, jobs = rows[0]
    return OperationStep(tenant_id, operation_id, OperationState(state), jobs)


def triggers(rows: Rows) -> list[Trigger]:
    return list(map(_trigger, rows))


def trigger(rows: Rows) -> Trigger:
    return _trigger(rows[0])


def firings(rows: Rows) -> list[Firing]:
    return [
        Firing(fire_at, at, FiringKind(kind), FiringOutcome(outcome), *others)
        for fire_at, at, kind, outcome, *others in rows
    ]


def due_schedules(rows: Rows) -> DueSchedules:
    return read_due(rows[0][0])


def _trigger(row: Row) -> Trigger:
    trigger_id, kind, *others = row
    catch_up, overlap = others[12], others[14]
    others[12], others[14] = CatchUp(catch_up), Overlap(overlap)
    return Trigger(trigger_id, TriggerType(kind), *others)


def allowance(rows: Rows) -> Allowance:
    return Allowance(*rows[0])


def enqueued_once(rows: Rows) -> list[EnqueuedOnce]:
    return [
        EnqueuedOnce(job_id, _STATUSES[status], replayed) for _, job_id, status, replayed in rows
    ]


def webhooks(rows: Rows) -> list[Webhook]:
    return [
        Webhook(webhook_id, url, description, list(map(WebhookEvent, events)), *others)
        for webhook_id, url, description, events, *others in rows
    ]


def webhook(rows: Rows) -> Webhook:
    return webhooks(rows)[0]


def deliveries(rows: Rows) -> list[Delivery]:
    return [
        Delivery(delivery_id, event, DeliveryState(state), *others)
        for delivery_id, event, state, *others in rows
    ]


def open_delivery(rows: Rows) -> OpenDelivery | None:
    return OpenDelivery(*rows[0]) if rows else None


def event(rows: Rows) -> Event:
    found = Event(*rows[0])
    return replace(found, deliveries=[_read_event_delivery(each) for each in rows[0][-1]])


def event_listings(rows: Rows) -> list[EventListing]:
    return [EventListing(*row) for row in rows]


def event_deliveries(rows: Rows) -> list[EventDelivery]:
    return [replace(EventDelivery(*row), outcome=DeliveryOutcome(row[4])) for row in rows]


def pending_events(rows: Rows) -> PendingEvents:
    document = rows[0][0]
    triggers = map(_read_trigger, document["triggers"])
    return PendingEvents(
        [_pending_event(event) for event in document["events"]],
        {trigger.id: trigger for trigger in triggers},
        {(each["key"], each["version"]): each["parameters"] for each in document["definitions"]},
    )


def _pending_event(document: dict[str, Json]) -> PendingEvent:
    return PendingEvent(
        UUID(document["id"]),
        UUID(document["event_id"]),
        document["name"],
        datetime.fromisoformat(document["created_at"]),
        document["correlation_id"],
        document["traceparent"],
        document["replay"],
        [UUID(trigger) for trigger in document["triggers"]],
        document["data"],
    )


def position(rows: Rows) -> SweepPosition:
    return SweepPosition(*rows[0])


def stream_page(rows: Rows) -> StreamPage:
    # The last row is the mark: how far the rows before it reach.
    *happened, (position, *_, found) = rows
    return StreamPage(list(map(Happening._make, happened)), position, found["is_complete"])


def queue_counts(rows: Rows) -> list[QueueCount]:
    return list(map(QueueCount._make, rows))


def gauges(rows: Rows) -> list[Gauge]:
    return list(map(Gauge._make, rows))


def troubles(rows: Rows) -> list[Trouble]:
    return list(map(Trouble._make, rows))


def applied_files(rows: Rows) -> list[AppliedFile]:
    return list(map(AppliedFile._make, rows))


def history(rows: Rows) -> JobHistory:
    job, attempts, events = rows[0]
    workflow = job.get("workflow")
    return JobHistory(
        _read_job(job),
        list(map(_read_attempt, attempts)),
        list(map(_read_event, events)),
        list(map(_read_relative, job.get("parents", ()))),
        list(map(_read_relative, job.get("children", ()))),
        workflow and _read_membership(workflow),
    )


def made_workflow(rows: Rows) -> MadeWorkflow:
    # The row without a job is the workflow's own.
    return MadeWorkflow(rows[0][0], {node: job_id for _, node, job_id in rows if job_id})


def node_jobs(rows: Rows) -> dict[str, UUID]:
    return dict(rows)


def made_batch(rows: Rows) -> MadeBatch:
    jobs = sorted((row[1:] for row in rows if row[2] is not None), key=itemgetter(0))
    return MadeBatch(
        rows[0][0], [Enqueued(job_id, _STATUSES[status]) for _, job_id, status in jobs]
    )


def workflows(rows: Rows) -> list[WorkflowInfo]:
    return [_read_workflow(document) for (document,) in rows]


def batch(rows: Rows) -> WorkflowInfo:
    return workflows(rows)[0]


def workflow_state(rows: Rows) -> WorkflowState:
    return WorkflowState(rows[0][0])


def workflow_detail(rows: Rows) -> WorkflowDetail:
    workflow, nodes, edges = rows[0]
    return WorkflowDetail(
        _read_workflow(workflow),
        list(map(_read_node, nodes)),
        [(parent, child) for parent, child in edges],
        workflow["result"],
        workflow["is_whole"],
    )


def lineage(rows: Rows) -> Lineage:
    parents, workflow = rows[0]
    return read_lineage({"parents": parents, "workflow": workflow})


def read_lineage(document: dict[str, Json]) -> Lineage:
    workflow = document["workflow"]
    return Lineage(
        list(map(_read_parent, document["parents"])), workflow and _read_family(workflow)
    )


def _reader(kind: Callable[..., T]) -> Callable[[dict[str, Json]], T]:
    """Makes a dataclass from a JSON object; members that it has no field for are left out."""
    converters = {name: _converter(hint) for name, hint in get_type_hints(kind).items()}

    def read(document: dict[str, Json]) -> T:
        members = ((name, document.get(name), convert) for name, convert in converters.items())
        return kind(
            **{
                name: None if member is None else convert(member)
                for name, member, convert in members
            }
        )

    return read


def _converter(hint: Any) -> Callable[[Json], Json]:  # noqa: ANN401 - a type as hints spell it
    parts = get_args(hint) or (hint,)
    return next((_FROM_JSON[part] for part in parts if part in _FROM_JSON), _as_is)


def _as_is(document: Json) -> Json:
    return document


_FROM_JSON: dict[Any, Callable[[Json], Json]] = {
    UUID: UUID,
    datetime: datetime.fromisoformat,
    State: State,
    Outcome: Outcome,
    DeliveryOutcome: DeliveryOutcome,
    WorkflowState: WorkflowState,
}
_read_job = _reader(Job)
_read_attempt = _reader(Attempt)
_read_event = _reader(JobEvent)
_read_relative = _reader(Relative)
_read_membership = _reader(Membership)
_read_workflow = _reader(WorkflowInfo)
_read_node = _reader(NodeInfo)
_read_parent = _reader(ParentJob)
_read_family = _reader(Family)
_read_event_delivery = _reader(EventDelivery)
_read_trigger = _reader(EventTrigger)


def connector_config(rows: Rows) -> ConnectorConfig:
    return ConnectorConfig(*rows[0])


def connector_configs(rows: Rows) -> list[ConnectorConfig]:
    return [ConnectorConfig(*row) for row in rows]


def open_config(rows: Rows) -> OpenConfig:
    return OpenConfig(*rows[0])


def wrapped_key(rows: Rows) -> WrappedKey:
    key_id, wrapped = rows[0]
    return WrappedKey(key_id, bytes(wrapped))


def tenant_keys(rows: Rows) -> list[TenantWrappedKey]:
    return [
        TenantWrappedKey(tenant_id, WrappedKey(key_id, bytes(wrapped)))
        for tenant_id, key_id, wrapped in rows
    ]
