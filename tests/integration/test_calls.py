"""Every public function of the engine through jobforge.calls, on sync and async connections."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from cluster import Clock, Connect, Connection
from integration.call_setup import A_JOB, TENANT_A, WORKER, RunCall, report

from jobforge import calls
from jobforge.errors import Json, LeaseLost, NotFound, TenantErased
from jobforge.types.job_history import Attempt
from jobforge.types.jobs import (
    BeatStatus,
    ClaimedJob,
    EnqueueStatus,
    Job,
    JobFilter,
    JobListing,
    JobRequest,
    Note,
    Outcome,
    State,
    WorkerCommand,
)
from jobforge.types.tenants import Erasure, TenantInfo
from jobforge.types.workers import WorkerInfo


def _enqueue(run: RunCall, job: JobRequest = A_JOB) -> UUID:
    return run(calls.enqueue_job(job).for_tenant(TENANT_A)).job_id


def _claim(run: RunCall, limit: int = 1) -> list[ClaimedJob]:
    return run(calls.claim_jobs(WORKER, {"default": limit}))


def _claim_one(run: RunCall) -> ClaimedJob:
    _enqueue(run)
    [job] = _claim(run)
    return job


def _job(run: RunCall, job_id: UUID) -> Job:
    return run(calls.get_job(job_id).for_tenant(TENANT_A)).job


def _kill(run: RunCall) -> UUID:
    job = _claim_one(run)
    error = {"type": "Oops", "message": "no"}
    run(calls.complete_jobs(WORKER, [report(job, Outcome.FAILED, error=error, final=True)]))
    return job.job_id


def test_every_public_function_has_a_call_of_its_name(conn: Connection) -> None:
    public = conn.execute(
        """
        select distinct p.proname from pg_proc as p
         where p.pronamespace = 'jobforge'::regnamespace
           and has_function_privilege('jobforge_server', p.oid, 'execute')
        """
    )
    # Policies and PostgREST call the first two, and `db check` the last.
    names = {row["proname"] for row in public} - {"tenant", "pre_request", "access_faults"}
    assert names == set(dir(calls)) - {"Call", "PendingResult"}


def test_rows_have_the_columns_of_their_class(conn: Connection) -> None:
    for call, names in [
        (calls.claim_jobs(WORKER, {"default": 1}), list(ClaimedJob._fields)),
        (calls.list_jobs(tenant_id=TENANT_A), [field.name for field in fields(JobListing)]),
        (calls.list_tenants(), [field.name for field in fields(TenantInfo)]),
        (calls.list_workers(), [field.name for field in fields(WorkerInfo)]),
    ]:
        cursor = conn.execute(call.sql, call.parameters)
        assert [column.name for column in cursor.description or ()] == names


def test_a_job_and_an_attempt_have_the_fields_of_get_job(run: RunCall, conn: Connection) -> None:
    job = _claim_one(run)
    run(calls.complete_jobs(WORKER, [report(job)]))
    shown = conn.execute(
        "select * from jobforge.get_job(%s, %s)", [job.job_id, TENANT_A]
    ).fetchone()
    assert shown
    around = {"parents", "children", "workflow"}
    assert set(shown["job"]) - around == {field.name for field in fields(Job)}
    assert set(shown["attempts"][0]) == {field.name for field in fields(Attempt)}


def test_a_job_has_every_field_it_was_enqueued_with(run: RunCall) -> None:
    due = datetime.now(UTC) + timedelta(hours=1)
    request = JobRequest(
        "mail@1",
        {"to": "ada", "n": [1, 2.5, None]},
        queue="slow",
        priority=7,
        run_at=due,
        expires_in_s=7200,
        max_attempts=3,
        timeout_s=9,
        key="k",
        limit_key="ada",
        tags=["a", "b"],
        correlation_id="c",
        traceparent="00-ab-cd-01",
        created_by="test",
        artifact_ref="s3://x",
    )
    job = _job(run, _enqueue(run, request))
    assert (job.definition, job.version, job.queue, job.priority) == ("mail", 1, "slow", 7)
    assert (job.run_at, job.state, job.tenant_id) == (due, State.SCHEDULED, TENANT_A)
    assert (job.max_attempts, job.timeout_s, job.idempotency_key) == (3, 9, "k")
    assert (job.limit_key, job.tags, job.correlation_id) == ("ada", ["a", "b"], "c")
    assert (job.traceparent, job.created_by, job.artifact_ref) == ("00-ab-cd-01", "test", "s3://x")
    assert job.payload == {"to": "ada", "n": [1, 2.5, None]}
    assert job.expires_at
    assert job.expires_at > due


def test_jobs_are_returned_in_the_order_of_the_request(run: RunCall) -> None:
    first = _enqueue(run, JobRequest("mail", key="taken"))
    requests = [
        JobRequest("mail"),
        JobRequest("mail", key="taken"),
        JobRequest("mail", key="taken", priority=3, on_conflict="replace"),
        JobRequest("mail", key="new"),
    ]
    answers = run(calls.enqueue_jobs(requests).for_tenant(TENANT_A))
    created, existing, replaced = EnqueueStatus
    assert [answer.status for answer in answers] == [created, existing, replaced, created]
    assert [answer.job_id == first for answer in answers] == [False, True, True, False]


def test_a_claimed_job_has_what_its_attempt_needs(run: RunCall) -> None:
    _enqueue(run, A_JOB._replace(priority=2, tags=["x"]))
    [job] = _claim(run)
    assert isinstance(job.job_id, UUID)
    assert (job.tenant_id, job.payload, job.tags) == (TENANT_A, {"to": "ada"}, ["x"])
    assert (job.definition, job.version, job.attempt, job.timeout_s) == ("mail", 1, 1, 3600)
    assert job.lease == (job.started_at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


def test_a_claim_is_limited_to_definitions_and_tenants(run: RunCall) -> None:
    _enqueue(run)
    limits = {"other": 1, "default": 5}
    assert run(calls.claim_jobs(WORKER, limits, definitions=["mail@2"])) == []
    assert run(calls.claim_jobs(WORKER, limits, tenants=[uuid4()])) == []
    only = calls.claim_jobs(WORKER, limits, definitions=["mail@1"], tenants=[TENANT_A], lease_s=5)
    assert len(run(only)) == 1


def test_a_heartbeat_reports_on_each_job_and_on_the_worker(run: RunCall) -> None:
    kept, canceled = _claim_one(run), _claim_one(run)
    lost = kept.token._replace(lease=1)
    run(calls.cancel_job(canceled.job_id).for_tenant(TENANT_A))
    tokens = [kept.token, canceled.token, lost]
    beat = run(calls.heartbeat_jobs(WORKER, tokens))
    statuses = {(job.job_id, job.lease): job.status for job in beat.jobs}
    expected = [BeatStatus.OK, BeatStatus.CANCEL, BeatStatus.LOST]
    assert [statuses[token.job_id, token.lease] for token in tokens] == expected
    assert beat.command is WorkerCommand.UNKNOWN

    assert run(calls.heartbeat_job(WORKER, kept.token)) is BeatStatus.OK
    with pytest.raises(LeaseLost):
        run(calls.heartbeat_job(WORKER, lost))


def test_a_heartbeat_waits_for_a_locked_job(run: RunCall, connect: Connect) -> None:
    token = _claim_one(run).token
    run(calls.heartbeat_job(WORKER, token))
    holder = connect(autocommit=False)
    holder.execute("select from jobforge.heartbeats for update")
    assert run(calls.heartbeat_jobs(WORKER, [token])).jobs == [(*token[1:], BeatStatus.HELD)]
    assert run(calls.heartbeat_job(WORKER, token)) is BeatStatus.HELD
    holder.rollback()
    assert run(calls.heartbeat_job(WORKER, token)) is BeatStatus.OK


def test_outcomes_settle_jobs(run: RunCall) -> None:
    done, failed, lost = _claim_one(run), _claim_one(run), _claim_one(run)
    answers = run(
        calls.complete_jobs(
            WORKER,
            [
                report(done, result={"sent": True}, exit_code=0, stdout_tail="ok\n"),
                report(failed, Outcome.FAILED, error={"type": "E"}, retry_in_s=60),
                report(lost)._replace(lease=1),
            ],
        )
    )
    by_job = {answer.job_id: (answer.status, answer.state) for answer in answers}
    assert by_job == {
        done.job_id: ("ok", State.SUCCEEDED),
        failed.job_id: ("ok", State.SCHEDULED),
        lost.job_id: ("lost", None),
    }
    assert _job(run, done.job_id).result == {"sent": True}
    history = run(calls.get_job(done.job_id).for_tenant(TENANT_A))
    [attempt] = history.attempts
    assert (attempt.outcome, attempt.exit_code, attempt.stdout_tail) == ("succeeded", 0, "ok\n")
    assert attempt.worker_id == WORKER
    assert history.events[0].kind == "created"


def test_a_single_outcome_raises_when_the_lease_is_lost(run: RunCall) -> None:
    job = _claim_one(run)
    with pytest.raises(LeaseLost):
        run(calls.complete_job(WORKER, report(job)._replace(lease=1)))
    assert run(calls.complete_job(WORKER, report(job))) is State.SUCCEEDED
    assert run(calls.complete_job(WORKER, report(job))) is None


def test_a_result_that_cannot_be_stored_does_not_fail_other_jobs(run: RunCall) -> None:
    good, bad, single = _claim_one(run), _claim_one(run), _claim_one(run)
    reports = [report(good), report(bad, result={"mean": float("nan")})]
    assert {answer.status for answer in run(calls.complete_jobs(WORKER, reports))} == {"ok"}
    run(calls.complete_job(WORKER, report(single, result="\ud800")))
    states = [_job(run, job.job_id).state for job in (good, bad, single)]
    assert states == [State.SUCCEEDED, State.DEAD, State.DEAD]
    error = _job(run, bad.job_id).error
    assert error
    assert error["type"] == "InvalidResult"
    assert "nan" in error["message"]


def test_output_and_errors_that_cannot_be_stored_are_replaced_by_text(run: RunCall) -> None:
    job = _claim_one(run)
    reported = report(
        job,
        Outcome.FAILED,
        error={"type": "E", "message": "at \0", "of": float("inf")},
        stdout_tail="\0\ud800",
        stderr_tail="null",
        retry_in_s=1,
    )
    [settled] = run(calls.complete_jobs(WORKER, [reported]))
    assert settled.state is State.SCHEDULED
    [attempt] = run(calls.get_job(job.job_id).for_tenant(TENANT_A)).attempts
    assert attempt.error == {"type": "E", "message": "at \ufffd", "of": "<float>"}
    assert (attempt.stdout_tail, attempt.stderr_tail) == ("\ufffd?", "null")


def test_notes_of_running_jobs_are_stored_and_read_in_order(run: RunCall) -> None:
    job, lost = _claim_one(run), _claim_one(run).token._replace(lease=1)
    notes = [
        Note(*job.token, "progress", {"done": 1, "total": 2}),
        Note(*lost, "log", {"message": "too late"}),
        Note(*job.token, "log", {"level": "info", "message": "hello", "at": job.started_at}),
        Note(*job.token, "event", {"name": "sent", "data": {"to": "ada"}}),
    ]
    answers = run(calls.note_jobs(WORKER, notes))
    assert {(answer.job_id, answer.is_lost) for answer in answers} == {
        (job.job_id, False),
        (lost.job_id, True),
    }
    listed = run(calls.list_notes(job.job_id).for_tenant(TENANT_A))
    assert [(note.kind, note.actor) for note in listed] == [
        ("progress", None),
        ("log", None),
        ("event", None),
    ]
    assert listed[2].data == {"name": "sent", "data": {"to": "ada"}, "lease": job.lease}
    assert job.started_at <= listed[0].at < listed[1].at
    assert run(calls.list_notes(lost.job_id).for_tenant(TENANT_A)) == []
    with pytest.raises(NotFound):
        run(calls.list_notes(uuid4()).for_tenant(TENANT_A))


def test_notes_are_read_in_pages_and_by_kind(run: RunCall) -> None:
    job = _claim_one(run)
    kinds = ["log", "progress", "log"]
    run(calls.note_jobs(WORKER, [Note(*job.token, kind, {}) for kind in kinds]))
    [first] = run(calls.list_notes(job.job_id, limit=1).for_tenant(TENANT_A))
    rest = run(calls.list_notes(job.job_id, after=first.at).for_tenant(TENANT_A))
    assert [note.kind for note in [first, *rest]] == kinds
    logs = run(calls.list_notes(job.job_id, kinds=["log"]).for_tenant(TENANT_A))
    assert len(logs) == 2


def test_notes_that_cannot_be_stored_are_replaced_by_text_and_others_stay(
    run: RunCall,
) -> None:
    job, tenant = _claim_one(run), str(TENANT_A)
    output: list[Json] = [{"mean": float("nan"), "text": "\0"}, {"tenant": TENANT_A}]
    run(calls.note_jobs(WORKER, [Note(*job.token, "log", data) for data in output]))
    bad, good = run(calls.list_notes(job.job_id).for_tenant(TENANT_A))
    assert bad.data == {"mean": "<float>", "text": "\ufffd", "lease": job.lease}
    assert good.data == {"tenant": tenant, "lease": job.lease}


def test_released_jobs_are_queued_again(run: RunCall) -> None:
    job = _claim_one(run)
    [settled] = run(calls.release_jobs(WORKER, [job.token]))
    assert (settled.status, settled.state) == ("ok", State.QUEUED)
    assert _job(run, job.job_id).attempt == 0


def test_the_reaper_returns_the_jobs_whose_leases_expired(run: RunCall, clock: Clock) -> None:
    job = _claim_one(run)
    assert run(calls.reap_jobs()) == []
    clock.travel(minutes=1)
    [reaped] = run(calls.reap_jobs(limit=5))
    assert reaped == (TENANT_A, job.job_id, job.lease, State.SCHEDULED)


def test_jobs_are_canceled_separately_and_by_filter(run: RunCall) -> None:
    queued, running = _enqueue(run, A_JOB._replace(run_at=_later())), _claim_one(run)
    cancel = calls.cancel_job(queued, reason="not needed").for_tenant(TENANT_A)
    assert run(cancel) is State.CANCELED
    assert _job(run, queued).cancel_reason == "not needed"
    assert run(calls.cancel_job(running.job_id).for_tenant(TENANT_A)) is State.CANCELING
    assert _job(run, running.job_id).state is State.CANCELING

    _enqueue(run, A_JOB._replace(tags=["old"]))
    old = JobFilter(tag="old", state=["queued", "scheduled"])
    assert run(calls.cancel_jobs(old, dry_run=True).for_tenant(TENANT_A)) == 1
    assert run(calls.cancel_jobs(old, reason="r", limit=10).for_tenant(TENANT_A)) == 1
    assert run(calls.cancel_jobs(old).for_tenant(TENANT_A)) == 0


def _later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def test_a_waiting_job_is_edited_and_rescheduled(run: RunCall) -> None:
    job, later = _enqueue(run), _later()
    assert run(calls.reschedule_job(job, later).for_tenant(TENANT_A)) is State.SCHEDULED
    assert _job(run, job).run_at == later
    assert run(calls.reschedule_job(job, None).for_tenant(TENANT_A)) is State.QUEUED
    changes = {"priority": 5, "payload": {"to": "bob"}, "run_at": later}
    assert run(calls.edit_job(job, changes).for_tenant(TENANT_A)) is State.SCHEDULED
    edited = _job(run, job)
    assert (edited.priority, edited.payload, edited.run_at) == (5, {"to": "bob"}, later)


def test_a_dead_job_is_retried_and_a_finished_one_is_copied(run: RunCall) -> None:
    dead = _kill(run)
    assert _job(run, dead).fingerprint
    assert run(calls.retry_job(dead, attempts=2).for_tenant(TENANT_A)) == dead
    assert _job(run, dead).max_attempts == 3
    [job] = _claim(run)
    run(calls.complete_jobs(WORKER, [report(job)]))
    again = run(calls.retry_job(dead, payload={"to": "eve"}).for_tenant(TENANT_A))
    assert (_job(run, again).retry_of, _job(run, again).payload) == (dead, {"to": "eve"})


def test_dead_jobs_are_redriven_by_filter(run: RunCall) -> None:
    _kill(run)
    _kill(run)
    assert run(calls.retry_jobs(dry_run=True).for_tenant(TENANT_A)) == 2
    which = JobFilter(definition="mail")
    assert run(calls.retry_jobs(which, rate=0.1, attempts=1).for_tenant(TENANT_A)) == 2
    assert run(calls.retry_jobs(limit=5).for_tenant(TENANT_A)) == 0


def test_jobs_are_listed_in_pages(run: RunCall) -> None:
    ids = [_enqueue(run) for _ in range(3)]
    first = run(calls.list_jobs(limit=2).for_tenant(TENANT_A))
    rest = run(calls.list_jobs(limit=2, before=first[-1].id).for_tenant(TENANT_A))
    assert [job.id for job in first + rest] == ids[::-1]
    assert {job.state for job in first} == {State.QUEUED}
    assert run(calls.list_jobs(JobFilter(state="dead")).for_tenant(TENANT_A)) == []
    soon = JobFilter(created_after=_later() - timedelta(hours=2), created_before=_later())
    assert len(run(calls.list_jobs(soon).for_tenant(TENANT_A))) == 3


def test_a_summary_counts_by_queue_and_state(run: RunCall) -> None:
    job = _claim_one(run)
    run(calls.complete_jobs(WORKER, [report(job)]))
    _enqueue(run)
    lines = run(calls.summarize(window_s=60).for_tenant(TENANT_A))
    assert [(line.queue, line.state, line.jobs) for line in lines] == [
        ("default", State.QUEUED, 1),
        ("default", State.SUCCEEDED, 1),
    ]
    assert lines[0].oldest_queued_at


def test_an_explanation_suggests_what_would_help(run: RunCall) -> None:
    [reason, *_] = run(calls.explain_job(_enqueue(run)).for_tenant(TENANT_A))
    assert reason.code == "queue_not_served"
    assert reason.detail["queue"] == "default"
    assert "--queues default" in reason.remedy


def test_workers_are_registered_commanded_and_listed(run: RunCall) -> None:
    register = calls.register_worker(
        WORKER, ["default"], slots=4, definitions=["mail@1"], host="h", pid=7, build="b"
    )
    run(register)
    [worker] = run(calls.list_workers())
    assert (worker.id, worker.state, worker.slots, worker.pid) == (WORKER, "live", 4, 7)
    assert (worker.queues, worker.definitions) == (["default"], ["mail@1"])
    for call, command, state in [
        (calls.drain_worker(WORKER), WorkerCommand.DRAIN, "draining"),
        (calls.stop_worker(WORKER), WorkerCommand.STOP, "stopping"),
    ]:
        run(call)
        assert run(calls.heartbeat_jobs(WORKER, [])).command is command
        assert run(calls.list_workers())[0].state == state
    run(calls.unregister_worker(WORKER))
    assert run(calls.list_workers())[0].stopped_at
    with pytest.raises(NotFound):
        run(calls.drain_worker(uuid4()))


def test_queues_definitions_and_tenants_are_limited_and_paused(run: RunCall) -> None:
    run(calls.put_queue("default", {"max_running": 3}))
    run(calls.put_tenant(TENANT_A, {"slug": "acme", "weight": 2}))
    run(calls.override_definition("mail", {"timeout_s": 5}))
    job = _enqueue(run)
    for pause, resume, code in [
        (calls.pause_queue("default"), calls.resume_queue("default"), "queue_paused"),
        (calls.pause_definition("mail"), calls.resume_definition("mail"), "definition_paused"),
        (calls.pause_tenant(TENANT_A), calls.resume_tenant(TENANT_A), "tenant_paused"),
    ]:
        run(pause)
        reasons = run(calls.explain_job(job).for_tenant(TENANT_A))
        assert code in [reason.code for reason in reasons]
        assert _claim(run) == []
        run(resume)
    [claimed] = _claim(run)
    assert claimed.timeout_s == 5


def test_a_tenant_is_found_by_its_slug(run: RunCall) -> None:
    run(calls.put_tenant(TENANT_A, {"slug": "acme"}))
    assert run(calls.find_tenant("acme")) == TENANT_A
    with pytest.raises(NotFound):
        run(calls.find_tenant("globex"))


def test_tenants_with_settings_are_listed(run: RunCall) -> None:
    run(calls.put_tenant(TENANT_A, {"slug": "acme", "weight": 2, "max_pending": 9}))
    run(calls.pause_tenant(TENANT_A))
    [tenant] = run(calls.list_tenants())
    assert (tenant.id, tenant.slug, tenant.name) == (TENANT_A, "acme", None)
    assert (tenant.timezone, tenant.weight, tenant.max_pending) == ("UTC", 2, 9)
    assert tenant.paused_at


def test_a_finished_job_is_followed_by_its_hooks(run: RunCall) -> None:
    run(calls.put_definition("mail", 1, {"hooks": True}))
    run(calls.put_definition("mail:hooks", 1))
    job = _claim_one(run)
    run(calls.complete_jobs(WORKER, [report(job, result="sent")]))
    [follower] = _claim(run)
    assert (follower.definition, follower.payload["job_id"]) == ("mail:hooks", str(job.job_id))
    assert (follower.payload["state"], follower.payload["result"]) == ("succeeded", "sent")


def test_maintenance_returns_what_it_did(run: RunCall, clock: Clock) -> None:
    _enqueue(run)
    swept = run(calls.regate_jobs(limit=1))
    assert not swept.is_at_end
    assert run(calls.regate_jobs(swept)).is_at_end
    clock.travel(days=40)
    assert run(calls.ensure_partitions(days=1)) > 0
    assert run(calls.apply_retention(history_days=7, dead_days=7, limit=10))["partitions"]


def test_a_deleted_tenant_is_not_found(run: RunCall) -> None:
    job = _enqueue(run)
    operation = run(calls.delete_tenant(TENANT_A))
    assert run(calls.delete_tenant(TENANT_A)) == operation
    while run(calls.advance_operations()) is not None:
        pass
    found = run(calls.next_erasure())
    assert found == Erasure(TENANT_A, operation)
    assert run(calls.next_erasure()) is None
    assert run(calls.confirm_erasure(found, found=True))
    while run(calls.advance_operations()) is not None:
        pass
    last = run(calls.next_erasure())
    assert last == found
    assert run(calls.confirm_erasure(last, found=False))
    while run(calls.advance_operations()) is not None:
        pass
    erased = run(calls.get_operation(operation).for_tenant(TENANT_A))
    assert (erased.kind, erased.state, erased.done) == ("erase", "done", 1)
    with pytest.raises(TenantErased):
        _job(run, job)
