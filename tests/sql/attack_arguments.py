"""Arguments that an attacker passes to each function: its own values, and another tenant's.

A parameter is identified by its name and type, and by its function where these do not suffice. A
parameter that is missing here has no generator, and the attack on its function fails until one is
added.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

from cluster import Connection
from sql.engine import Json
from sql.planted_tenants import Planted, wrapped

# A value in Postgres's text format; None is null.
Value = str | None
Arguments = dict[str, Value]

# The value of the other tenant's word in calls that must name no tenant.
UNUSED_WORD = "unusedword"


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    signature: str
    parameters: tuple[Parameter, ...]

    @property
    def qualified(self) -> str:
        """The name with its schema."""
        return self.signature.partition("(")[0]

    def takes(self, name: str) -> bool:
        return any(parameter.name == name for parameter in self.parameters)


@dataclass(frozen=True, slots=True)
class Values:
    """`own` values make a valid call for the attacker's tenant; `foreign` values belong to the
    victim.
    """

    own: Value
    foreign: tuple[str, ...] = ()
    other: tuple[Value, ...] = ()


def functions(conn: Connection) -> list[Function]:
    """Return all functions that can be called, with their input parameters."""
    rows = conn.execute(
        """
        select p.oid::regprocedure::text as signature, p.proname as name,
               coalesce(array_agg(a.name order by a.n) filter (where a.is_input), '{}') as names,
               coalesce(array_agg(format_type(a.type, null) order by a.n)
                        filter (where a.is_input), '{}') as types
          from pg_proc as p
          left join lateral (
               select t.type, t.n, p.proargnames[t.n] as name,
                      coalesce(p.proargmodes[t.n], 'i') in ('i', 'b', 'v') as is_input
                 from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]))
                      with ordinality as t(type, n)) as a on true
         where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])
           and p.prorettype <> 'trigger'::regtype
         group by p.oid, p.proname
         order by p.proname
        """
    )
    return [
        Function(
            row["name"],
            row["signature"],
            tuple(map(Parameter, row["names"], row["types"])),
        )
        for row in rows
    ]


def own_arguments(function: Function, a: Planted, b: Planted) -> Arguments:
    return {
        parameter.name: own_argument(function, parameter, a, b) for parameter in function.parameters
    }


def own_argument(function: Function, parameter: Parameter, a: Planted, b: Planted) -> Value:
    return _values(function, parameter, a, b).own


def foreign_arguments(function: Function, a: Planted, b: Planted) -> Iterator[Arguments]:
    """Return calls that name objects of tenant b.

    Each parameter is replaced alone, then all of them together, then two IDs without the tenant,
    because a foreign tenant ID would be refused for that reason alone.
    """
    own = own_arguments(function, a, b)
    values = {p.name: _values(function, p, a, b) for p in function.parameters}
    for name, value in values.items():
        for foreign in value.foreign:
            yield own | {name: foreign}
    for turn in range(max((len(value.foreign) for value in values.values()), default=0)):
        yield own | {
            name: value.foreign[turn % len(value.foreign)]
            for name, value in values.items()
            if value.foreign
        }
    pair = _pair(function, a, b)
    if pair:
        yield own | pair


def _pair(function: Function, a: Planted, b: Planted) -> Arguments:
    """Return two IDs of tenant b, for functions that take two of them."""
    ids = [p for p in function.parameters if p.name in {"p_id", "p_delivery_id"}]
    found = {p.name: _values(function, p, a, b).foreign for p in ids}
    return {name: foreign[0] for name, foreign in found.items() if foreign and len(ids) > 1}


def other_arguments(function: Function, a: Planted, b: Planted) -> Iterator[Arguments]:
    """Return calls that name nothing of tenant b: the attacker's own values, nulls, and
    wildcards."""
    own = own_arguments(function, a, b)
    yield own
    for parameter in function.parameters:
        for value in _values(function, parameter, a, b).other:
            yield own | {parameter.name: value}
        yield own | {parameter.name: None}


def with_unused_values(arguments: Arguments, b: Planted) -> Arguments:
    """Replace the values of tenant b by values that no tenant has and that sort next to them."""
    return {name: value and _unused(value, b) for name, value in arguments.items()}


def masked(text: str, b: Planted) -> str:
    """Return the message without the IDs and times that legitimately differ from call to call."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<id>", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[T ][\d:.]+(\+00:00|\+00|Z)?", "<time>", text)
    text = re.sub(r"\b\d{16}\b", "<lease>", text)
    text = text.replace(b.fingerprint, "<fingerprint>").replace(
        b.fingerprint[::-1], "<fingerprint>"
    )
    return text.replace(b.word, "<word>").replace(UNUSED_WORD, "<word>")


def _unused(value: str, b: Planted) -> str:
    for secret in sorted(b.secrets, key=len, reverse=True):
        if secret == b.word:
            value = value.replace(secret, UNUSED_WORD)
        elif secret == b.fingerprint:
            value = value.replace(secret, secret[::-1])
        else:
            value = value.replace(secret, secret[:-1] + str((int(secret[-1], 16) + 1) % 10))
    return value


def _values(function: Function, parameter: Parameter, a: Planted, b: Planted) -> Values:
    make = GENERATORS.get(f"{function.name}: {parameter}", GENERATORS.get(str(parameter)))
    assert make is not None, (
        f"{function.signature}: parameter {parameter} has no generator; say in {__name__} "
        "what an attacker would put there"
    )
    return make(a, b)


def _job_ids(a: Planted, b: Planted) -> Values:
    return Values(str(a.jobs["queued"]), tuple(map(str, b.jobs.values())))


def _tenant(a: Planted, b: Planted) -> Values:
    return Values(str(a.tenant), (str(b.tenant),))


def _worker(a: Planted, b: Planted) -> Values:
    return Values(str(a.worker), (str(b.worker),))


def _lease(a: Planted, b: Planted) -> Values:
    return Values(str(a.leases["running"]), tuple(map(str, b.leases.values())))


def _filter(_: Planted, b: Planted) -> Values:
    filters: list[Json] = [
        {"queue": b.queue},
        {"key": f"{b.word}-key-queued"},
        {"tag": f"{b.word}-tag"},
        {"correlation_id": f"{b.word}-correlation"},
        {"fingerprint": b.fingerprint},
        {"fingerprint": b.fingerprint, "state": "dead"},
        {"target": str(b.jobs["canceled"])},
    ]
    states = ["scheduled", "running", "canceling", "succeeded", "canceled", "dead", "failed"]
    everything = [json.dumps({"state": state}) for state in states]
    return Values("{}", tuple(map(json.dumps, filters)), tuple(everything))


def _ids(a: Planted, b: Planted) -> Values:
    """Return IDs of operations and of keys."""
    others = tuple(map(str, b.things.values()))
    return Values(str(a.operation), (str(b.operation), str(b.key), *others), (str(a.key),))


def _thing(kind: str) -> Callable[[Planted, Planted], Values]:
    """Return a generator for the ID of an object that belongs to a tenant."""
    return lambda a, b: Values(str(a.things[kind]), (str(b.things[kind]),))


def _options(_: Planted, b: Planted) -> Values:
    return Values("{}", tuple(map(json.dumps, _enqueue_options(b))))


def _enqueue_options(b: Planted) -> list[Json]:
    keys: list[Json] = [{"key": f"{b.word}-key-{state}"} for state in b.jobs]
    modes: list[Json] = [
        {"key": f"{b.word}-key-queued", "on_conflict": mode} for mode in ("raise", "replace")
    ]
    parents: list[Json] = [{"after": [str(job)]} for job in b.jobs.values()]
    return [*keys, *modes, *parents, {"queue": b.queue}, {"limit_key": f"{b.word}-limit"}]


def _jobs(a: Planted, b: Planted) -> Values:
    """Return jobs in the form of enqueue_jobs, with the tokens that workers hold."""
    enqueued: list[Json] = [{"definition": "planted", **more} for more in _enqueue_options(b)]
    return Values("[]", tuple(json.dumps([job]) for job in [*_tokens(a, b), *enqueued]))


def _outcomes(a: Planted, b: Planted) -> Values:
    kinds = ["succeeded", "failed", "canceled", "released", "snoozed"]
    outcomes = [{**token, "outcome": kind} for token in _tokens(a, b) for kind in kinds]
    return Values("[]", tuple(json.dumps([outcome]) for outcome in outcomes))


def _notes(a: Planted, b: Planted) -> Values:
    said = {"kind": "log", "data": {"message": "heard"}}
    return Values("[]", tuple(json.dumps([token | said]) for token in _tokens(a, b)))


def _steps(a: Planted, b: Planted) -> Values:
    done = {"name": f"{b.word}-step", "index": 0, "result": "other"}
    return Values("[]", tuple(json.dumps([token | done]) for token in _tokens(a, b)))


def _workflow(_: Planted, b: Planted) -> Values:
    node: Json = {"name": "node", "definition": "planted"}
    foreign: list[Json] = [{**node, "queue": b.queue}, {**node, "after": [f"{b.word}-node"]}]
    documents = [{"name": f"{b.word}-workflow", "nodes": [each]} for each in foreign]
    return Values(json.dumps({"nodes": [node]}), tuple(map(json.dumps, documents)), ("{}",))


def _nodes(_: Planted, b: Planted) -> Values:
    node: Json = {"name": "node", "definition": "planted", "after": [f"{b.word}-node"]}
    return Values("[]", (json.dumps([node]),), ("{}",))


def _tokens(a: Planted, b: Planted) -> list[Json]:
    """Return leases of b's jobs, also under a's name, and ended leases, for which a repeated
    completion returns ok.
    """
    tokens = [b.token(state) for state in b.leases]
    return [*tokens, *({**token, "tenant_id": str(a.tenant)} for token in tokens)]


def _leased(b: Planted) -> list[str]:
    """Return states of jobs that were claimed, starting with the one whose lease continues."""
    return sorted(b.leases, key=lambda state: state != "running")


def _deliveries(a: Planted, b: Planted) -> Values:
    """Return deliveries of b's event by b's trigger."""
    job = {"definition": "planted", "queue": b.queue}
    made: list[Json] = [
        {
            "id": str(place.things["waiting_event"]),
            "deliveries": [
                {"trigger_id": str(b.things["listener"]), "outcome": "enqueued", "job": job}
            ],
        }
        for place in (b, a)
    ]
    return Values("[]", tuple(json.dumps([each]) for each in made))


def _plans(a: Planted, b: Planted) -> Values:
    """Return firings of b's schedule, also under a's name."""
    made: list[Json] = [
        {
            "tenant_id": str(place.tenant),
            "id": str(b.things["schedule"]),
            "updated_at": "2026-01-01T00:00:00Z",
            "firings": [{"fire_at": "2026-01-01T00:00:00Z", "kind": "manual", "payload": {}}],
        }
        for place in (b, a)
    ]
    return Values("[]", tuple(json.dumps([each]) for each in made))


def _declared(a: Planted, b: Planted) -> Values:
    settings = {"label": "code", "definition": "planted", "cron": "@daily"}
    named = [
        json.dumps(
            [{"name": "planted", "type": "schedule", "tenant": tenant, "settings": settings}]
        )
        for tenant in (str(b.tenant), b.word, "*", str(a.tenant))
    ]
    return Values("[]", tuple(named[:2]), tuple(named[2:]))


def _folders(a: Planted, b: Planted) -> Values:
    """Return the artifact folders of jobs, by job ID."""
    named = (f"{{{b.tenant}/2026-01-01/{job_id}}}" for job_id in b.jobs.values())
    return Values(f"{{{a.tenant}/2026-01-01/{a.jobs['queued']}}}", tuple(named), ("{}",))


def _outcome(_: Planted, b: Planted) -> Values:
    renamed = {"outcome": "succeeded", **b.token("running")}
    return Values('{"outcome": "failed"}', (json.dumps(renamed),))


def _own(value: Value, *other: Value) -> Callable[[Planted, Planted], Values]:
    """Return a generator for a parameter that cannot name any object of a tenant."""
    return lambda _a, _b: Values(value, (), other)


GENERATORS: dict[str, Callable[[Planted, Planted], Values]] = {
    **{
        f"{function}_workflow: p_id uuid": _thing("workflow")
        for function in ("get", "cancel", "retry")
    },
    **{
        f"{function}_batch: p_id uuid": _thing("batch")
        for function in ("get", "cancel", "close", "add_to")
    },
    **{
        f"list_{kind}: p_filter jsonb": lambda _a, b: Values(
            "{}", (json.dumps({"name": f"{b.word}-workflow"}),), ('{"state": "running"}',)
        )
        for kind in ("workflows", "batches")
    },
    "p_workflow jsonb": _workflow,
    "p_batch jsonb": _own("{}", '{"open": true}'),
    "p_nodes jsonb": _nodes,
    "p_from text": lambda _a, b: Values(None, (f"{b.word}-node",), ("unknown",)),
    "p_job_id uuid": _job_ids,
    "p_tenant_id uuid": _tenant,
    "p_worker_id uuid": _worker,
    "p_lease bigint": _lease,
    "p_before uuid": lambda _a, b: Values(None, (str(b.jobs["queued"]),)),
    "p_filter jsonb": _filter,
    "p_options jsonb": _options,
    "p_jobs jsonb": _jobs,
    "p_outcomes jsonb": _outcomes,
    "p_jobs uuid[]": lambda _, b: Values("{}", tuple(f"{{{b.jobs[s]}}}" for s in _leased(b))),
    "p_leases bigint[]": lambda _, b: Values(
        "{1}", tuple(f"{{{b.leases[s]}}}" for s in _leased(b))
    ),
    "p_results jsonb[]": _own(None, "{1}"),
    "p_outcome jsonb": _outcome,
    "p_notes jsonb": _notes,
    "p_steps jsonb": _steps,
    "p_index integer": _own("0", "-1"),
    "p_slug text": lambda a, b: Values(a.word, (b.word,)),
    "p_payloads jsonb": lambda _a, b: Values(
        "[{}]", (json.dumps([{"secret": f"{b.word}-payload"}]),), ("[]", "{}")
    ),
    "p_payload jsonb": lambda _a, b: Values("{}", (json.dumps({"secret": f"{b.word}-payload"}),)),
    "p_changes jsonb": lambda _a, b: Values('{"priority": 1}', (json.dumps({"queue": b.queue}),)),
    "p_queues text[]": lambda a, b: Values(f"{{{a.queue}}}", (f"{{{b.queue}}}",)),
    "p_tenants uuid[]": lambda a, b: Values(
        None, (f"{{{b.tenant}}}", f"{{{a.tenant},{b.tenant}}}")
    ),
    "p_limits integer[]": _own("{1}"),
    "p_definitions text[]": _own(None, "{planted@1}"),
    "p_definition text": _own("planted", "planted@1", "unknown"),
    "p_reason text": _own(None, "because"),
    "p_run_at timestamp with time zone": _own("now", "tomorrow"),
    "p_after timestamp with time zone": _own(None, "yesterday", "-infinity"),
    "p_kinds text[]": _own(None, "{log}", "{}"),
    "p_attempts integer": _own("3", "0"),
    "p_limit integer": _own("10", "0", "200"),
    "p_tenants integer": _own("10", "0"),
    "p_rate double precision": _own("1"),
    "p_window_s double precision": _own("86400", "1e9"),
    "p_lease_s double precision": _own("30", "0"),
    "p_registered boolean": _own("false", "true"),
    "p_folders text[]": _folders,
    "apply_retention: p_kind text": _own(None, "partitions", "unknown"),
    "record_artifact_store: p_kind text": _own("app", "unknown"),
    "p_host text": _own("mill"),
    "p_pid integer": _own("7"),
    "p_queue text": _own("mill"),
    "p_store_id uuid": _own(str(UUID(int=7))),
    "p_location text": _own("/srv/artifacts"),
    "p_every_s double precision": _own("3600", "-1"),
    "p_dry_run boolean": _own("true", "false"),
    "p_has_store boolean": _own("true", "false"),
    "p_found boolean": _own("true", "false"),
    "annotate_failure: p_changes jsonb": _own('{"note": "seen"}', "{}"),
    "p_id uuid": _ids,
    "p_operation_id uuid": _ids,
    "p_fingerprint text": lambda a, b: Values(a.fingerprint, (b.fingerprint,)),
    "p_request_key text": lambda a, b: Values(f"{a.word}-other", (f"{b.word}-request",)),
    "p_body_hash bytea": _own(f"\\x{'00' * 32}", "\\x00"),
    "p_kind text": _own("cancel", "redrive", "unknown"),
    "p_key text": _own("planted", "unknown"),
    "p_version integer": _own("1", "2"),
    "p_prefix text": _own(None, "plant"),
    # The first position in the stream, and a key.
    "p_after text": _own(None, "1:9999999999999999", "planted"),
    "p_owner text": _own("key:lookupof"),
    "p_name text": lambda _a, b: Values("key", (f"{b.word}-key",)),
    "p_role text": _own("viewer", "super_admin", "unknown"),
    "p_lookup text": _own("lookupof"),
    "p_hash bytea": _own(f"\\x{'11' * 32}"),
    "p_scopes text[]": _own(None, "{jobs}"),
    "p_expires_at timestamp with time zone": _own(None, "yesterday"),
    "p_overlap_s double precision": _own("0", "-1"),
    "p_ends_by timestamp with time zone": _own(None, "yesterday"),
    "end_session: p_id bytea": _own(f"\\x{'33' * 16}", "\\x33"),
    "is_session_ended: p_id bytea": _own(f"\\x{'33' * 16}"),
    "end_session: p_expires_at timestamp with time zone": _own("tomorrow", None),
    **{
        f"{function}: p_id uuid": _thing("webhook")
        for function in (
            *("edit_webhook", "delete_webhook", "get_webhook", "rotate_webhook", "test_webhook"),
            *("list_deliveries", "redeliver", "open_delivery", "record_delivery"),
        )
    },
    **{
        f"{function}_trigger: p_id uuid": _thing("schedule")
        for function in ("edit", "delete", "get", "run", "backfill")
    },
    "create_trigger: p_type text": _own("schedule", "event", "unknown"),
    "create_trigger: p_settings jsonb": lambda _, b: Values(
        '{"label": "one", "definition": "planted", "cron": "@daily"}',
        (
            json.dumps(
                {"label": b.word, "definition": "planted", "cron": "@daily", "queue": b.queue}
            ),
        ),
        ("{}",),
    ),
    "edit_trigger: p_changes jsonb": lambda _, b: Values(
        '{"enabled": false}', (json.dumps({"queue": b.queue}),), ("{}",)
    ),
    "list_firings: p_trigger_id uuid": _thing("schedule"),
    "list_firings: p_before timestamp with time zone": _own(None, "now", "-infinity"),
    "p_times timestamp with time zone[]": _own("{2026-01-01 00:00+00}", "{}", "{tomorrow}"),
    "p_plans jsonb": _plans,
    "p_declared jsonb": _declared,
    "declare_triggers: p_definitions text[]": _own("{}", "{planted}"),
    "create_webhook: p_id uuid": _own(str(UUID(int=7))),
    "create_webhook: p_settings jsonb": lambda _, b: Values(
        '{"url": "https://example.com"}', (json.dumps({"url": f"https://{b.word}.example/"}),)
    ),
    "edit_webhook: p_changes jsonb": _own('{"enabled": false}', "{}"),
    "p_secret bytea": _own(f"\\x{'22' * 61}"),
    "p_delivery_id uuid": _thing("delivery"),
    "p_attempt jsonb": _own('{"status": 200}', '{"status": 410, "error": "gone"}'),
    "p_state text": _own(None, "failed", "unknown"),
    "get_event: p_id uuid": _thing("event"),
    "replay_event: p_id uuid": _thing("event"),
    "list_event_deliveries: p_trigger_id uuid": _thing("listener"),
    "p_data jsonb": lambda _a, b: Values("{}", (json.dumps({"secret": f"{b.word}-data"}),)),
    "due_schedules: p_without uuid[]": lambda _, b: Values("{}", (f"{{{b.things['schedule']}}}",)),
    "pending_events: p_after uuid": lambda _a, b: Values(None, (str(b.things["event"]),)),
    "p_deliveries jsonb": _deliveries,
    "p_history_days integer": _own("14"),
    "p_dead_days integer": _own("90"),
    "p_audit_days integer": _own("365"),
    "p_days integer": _own("7"),
    "after_tenant uuid": _own(None),
    "after_id uuid": _own(None),
    "p_build text": _own(None),
    "p_isolation text": _own(None),
    "p_burst integer": _own("10"),
    "p_slots integer": _own("1"),
    "p_bucket text": _own("planted"),
    "create_connector_config: p_id uuid": _own(str(UUID(int=8))),
    **{
        f"{function}_connector_config: p_id uuid": _thing("connector")
        for function in ("edit", "delete", "get")
    },
    "p_config jsonb": lambda a, b: Values(
        json.dumps({"name": f"{a.word}-new"}),
        (json.dumps({"name": f"{b.word}-config"}),),
        ("{}", '{"secrets": {"token": null}}'),
    ),
    "open_connector_config: p_name text": lambda a, b: Values(
        f"{a.word}-config", (f"{b.word}-config",)
    ),
    "p_key_id text": _own("new"),
    "p_login text": _own("bound_client_login", "nobodys_login"),
    "p_wrapped bytea": _own(f"\\x{'22' * 60}", "\\x00"),
    "p_before bytea": lambda _a, b: Values(f"\\x{'33' * 60}", (f"\\x{wrapped(b.word).hex()}",)),
    "list_tenant_keys: p_after uuid": lambda _a, b: Values(None, (str(b.tenant),)),
    "get_statistics: p_filter jsonb": lambda _a, b: Values(
        "{}", (json.dumps({"queue": b.queue}),), ('{"definition": "planted"}',)
    ),
    "p_since timestamp with time zone": _own("yesterday", "-infinity"),
    "p_until timestamp with time zone": _own("tomorrow", "infinity"),
    "p_step_s integer": _own("3600", "1"),
    "p_by text": _own("definition", "queue"),
    "p_order text": _own("newest", "oldest", "unknown"),
    "p_outcome text": _own("enqueued", "deduplicated", "unknown"),
    "p_memory_bytes bigint": _own("1000000", "-1"),
    "p_clock timestamp with time zone": _own("2026-11-01 00:00+00", "infinity"),
    "p_task text": _own("statistics", "unknown"),
    "p_action text": _own("access"),
    "p_target text": lambda _a, b: Values(None, (str(b.jobs["queued"]),)),
}
