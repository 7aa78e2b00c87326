"""Settle the outcomes of runs in batches (group commit).

Outcomes collect while a batch is in flight and go into the next one. A job's notes are sent before
its outcome. An outcome is kept until the database has responded: after a lost connection it is sent
again, and the engine recognizes outcomes that it has already stored. If another transaction has
locked the job, its outcome is `busy`: it is sent again after a backoff, in a separate batch, so
that other outcomes do not wait for it. The worker renews a job's lease until it is settled.
"""

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from jobforge import calls
from jobforge.db.background_loop import BackgroundLoop
from jobforge.db.outage import MonitoredLink
from jobforge.errors import Contended, Denied, Invalid, NotCommitted, Unavailable
from jobforge.observability import logs
from jobforge.observability.metrics import Meters
from jobforge.payloads.size import RESULT_LIMIT, is_surely_small
from jobforge.redact.background import run_off_loop
from jobforge.sdk.verdict import Verdict
from jobforge.types.jobs import (
    Note,
    Outcome,
    Settled,
    SettleStatus,
    State,
    Token,
)
from jobforge.worker.clock import now
from jobforge.worker.leases import LeaseKey
from jobforge.worker.outcome_reports import (
    RELEASED,
    EndedRun,
    build_reports,
    build_succeed_call,
    encode_result,
    is_large,
    is_plain_success,
    lease_key,
    replace_refused,
    weight_of_error,
    weight_of_tails,
)
from jobforge.worker.result_uploads import ResultUploads
from jobforge.worker.runner_protocol import SUCCEEDED
from jobforge.worker.worker_state import WorkerState

_LARGEST_BATCH = 2_000
_MAX_BATCH_BYTES = 16 * 1024**2
# With this many waiting outcomes, the worker stops claiming.
_MAX_WAITING = 2 * _LARGEST_BATCH
# Backoff between attempts to settle a busy job.
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0
# A batch that is in flight for this long may take even longer, so its leases must be renewed.
_SLOW_S = 1.0
_MAX_LOGGED = 100
_FAILURES = {Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CRASHED}


class Settler:
    def __init__(self, state: WorkerState, link: MonitoredLink, uploads: ResultUploads) -> None:
        self._state = state
        self._worker_id = state.worker_id
        self._meters = state.meters
        self._notes = state.notes
        self._waiting = state.outcomes
        self._link = link
        self._uploads = uploads
        self._sending: list[EndedRun] = []
        self._sending_notes: list[Note] = []
        self._sending_since = math.inf
        self._busy: list[tuple[float, EndedRun]] = []  # the float: when to send it again
        # Of busy jobs, also while they are in flight again.
        self._retry_counts: Counter[LeaseKey] = Counter()
        self._is_retry = False
        self._batch_limit = _LARGEST_BATCH
        self.settled = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._sending) + len(self._busy) + len(self._uploads)

    @property
    def is_crowded(self) -> bool:
        return len(self._waiting) + len(self._busy) >= _MAX_WAITING or self._uploads.is_crowded

    async def step(self, loop: BackgroundLoop) -> None:
        """Send the collected notes and settle one batch of outcomes; wait if there are none."""
        # The process may have been suspended: stop jobs whose leases expired before anything else.
        self._state.leases.stop_overdue()
        if not self._sending:
            self._sending = self._take_due_busy()
            self._is_retry = bool(self._sending)
            self._sending = self._sending or self._take_batch()
            self._sending_since = now()
        if not self._sending and not self._sending_notes and not self._notes:
            await loop.wait_for_wake(self._next_retry_s())
            return
        # The outcomes were taken first, so the notes include all of these jobs' notes.
        await self._send_notes()
        if self._sending:
            await self._settle()

    def log_unsettled(self) -> None:
        """Log the jobs that the ending worker leaves to the reaper."""
        busy = [ended for _, ended in self._busy]
        for job, _, _ in islice(chain(busy, self._sending, self._waiting), _MAX_LOGGED):
            is_busy = (job.job_id, job.lease) in self._retry_counts
            why = "another transaction locks the job, or a row that is needed to finish it"
            logs.emit(
                "job.unsettled",
                level="warning",
                **logs.job_fields(job),
                reason=why if is_busy else "the database has not responded",
            )

    def tokens_to_extend(self, waiting_for_s: float) -> Iterator[Token]:
        """Yield the leases to renew: of busy jobs, and of all others if a batch is slow."""
        for _, (job, _, _) in self._busy:
            yield job.token
        is_slow = self._sending_since <= now() - max(waiting_for_s, _SLOW_S)
        if self._sending and (is_slow or self._is_retry):
            for job, _, _ in self._sending:
                yield job.token
        if self._sending and is_slow:
            for job, _, _ in self._waiting:
                yield job.token

    def _take_due_busy(self) -> list[EndedRun]:
        """Take the busy outcomes that are due to be sent again."""
        moment = now()
        due = [busy for busy in self._busy if busy[0] <= moment][:_LARGEST_BATCH]
        if due:
            taken = set(map(id, due))
            self._busy = [busy for busy in self._busy if id(busy) not in taken]
        return [ended for _, ended in due]

    def _next_retry_s(self) -> float | None:
        if not self._busy:
            return None
        return max(0.0, min(at for at, _ in self._busy) - now())

    def _defer_busy(self, ended: EndedRun) -> None:
        retry_count = self._retry_counts[lease_key(ended)]
        self._retry_counts[lease_key(ended)] += 1
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(retry_count, 10))
        at = now() + pause_s * random.uniform(0.5, 1)  # noqa: S311 - not cryptographic
        self._busy.append((at, ended))

    def _take_batch(self) -> list[EndedRun]:
        taken: list[EndedRun] = []
        weight = 0
        while self._waiting and len(taken) < self._batch_limit and weight < _MAX_BATCH_BYTES:
            ended = self._waiting.popleft()
            if ended[1] is not SUCCEEDED:
                result = encode_result(ended[1])
                if not is_surely_small(result, RESULT_LIMIT) and is_large(ended[1]):
                    self._uploads.start(ended[0], ended[1], result)
                    continue
                weight += len(result) + weight_of_tails(ended[1])
            taken.append(ended)
        return taken

    async def _settle(self) -> None:
        try:
            if not self._is_retry:
                await self._send_plain_successes()
            if self._sending:
                await self._send(self._sending)
        except (Unavailable, Denied):
            raise
        except Contended:
            if len(self._sending) > 1:
                self._halve()
            else:
                # Another transaction has locked this job: do not make the others wait for it.
                self._waiting.append(self._sending.pop())
            raise
        except Exception as error:  # noqa: BLE001 - one bad outcome must not block the others
            if len(self._sending) > 1:
                self._halve()
            else:
                self._sending = replace_refused(self._sending[0], error)
            return
        self._sending = []
        self._batch_limit = min(_LARGEST_BATCH, self._batch_limit * 2)
        self._state.changed.set()

    def _halve(self) -> None:
        """Halve the batch: it hit the statement timeout, or contains a bad outcome."""
        self._batch_limit = max(1, len(self._sending) // 2)
        self._waiting.extendleft(reversed(self._sending[self._batch_limit :]))
        del self._sending[self._batch_limit :]

    async def _send_plain_successes(self) -> None:
        """Settle plain successes, the most common outcome, by the faster succeed_jobs.

        Jobs that succeed_jobs does not settle stay in the batch for complete_jobs, which returns
        the reason.
        """
        plain: list[EndedRun] = []
        others: list[EndedRun] = []
        for ended in self._sending:
            (plain if is_plain_success(ended[1]) else others).append(ended)
        if not plain:
            return
        try:
            call = build_succeed_call(self._worker_id, plain)
        except Invalid:  # one of the results cannot be encoded
            return
        sent_at = now()
        unsettled = set(await self._link.run(call))
        if unsettled:
            others += [ended for ended in plain if lease_key(ended) in unsettled]
            plain = [ended for ended in plain if lease_key(ended) not in unsettled]
        self._sending = others
        self.settled += len(plain)
        if self._meters is not None:
            self._meters.record_settle(len(plain), now() - sent_at)
            self._meters.record_ended(Outcome.SUCCEEDED, plain)
        if logs.is_enabled("debug"):
            done = [Settled(*lease_key(e), SettleStatus.OK, State.SUCCEEDED) for e in plain]
            self._log_settled(plain, done)

    async def _send(self, ended: Sequence[EndedRun]) -> None:
        weight = sum(weight_of_error(report) for _, report, _ in ended)
        reports = await run_off_loop(weight, build_reports, ended)
        call = calls.complete_jobs(self._worker_id, reports)
        sent_at = now()
        answers = await self._link.run(call)
        took_s = now() - sent_at
        by_lease = {lease_key(each): each for each in ended}
        for answer in answers:
            if answer.status is SettleStatus.BUSY:
                self._defer_busy(by_lease[answer.job_id, answer.lease])
            elif self._retry_counts:
                self._retry_counts.pop((answer.job_id, answer.lease), None)
        answers = [answer for answer in answers if answer.status is not SettleStatus.BUSY]
        self.settled += len(answers)
        if self._meters is not None:
            self._meters.record_settle(len(answers), took_s)
            _count_settled(self._meters, ended, answers)
        self._log_settled(ended, answers)

    def _log_settled(self, ended: Sequence[EndedRun], answers: Sequence[Settled]) -> None:
        if logs.is_enabled("debug"):
            notable = list(answers)
        else:
            notable = [answer for answer in answers if answer.state is not State.SUCCEEDED]
        if not notable:
            return
        by_lease = {lease_key(each): each for each in ended}
        for answer in notable:
            _log_settled_run(by_lease[answer.job_id, answer.lease], answer)

    async def _send_notes(self) -> None:
        last = self._notes.last  # a job that keeps writing notes must not delay the outcomes
        while self._sending_notes or self._notes.has_notes_until(last):
            self._sending_notes = self._sending_notes or await self._notes.take()
            call = calls.note_jobs(self._worker_id, self._sending_notes)
            try:
                answers = await self._link.run(call)
            except (Unavailable, Contended, Denied):
                raise
            except Exception as error:  # noqa: BLE001 - bad notes must not block the outcomes
                logs.emit("notes.refused", level="error", error=repr(error))
            else:
                self._state.leases.mark_lost(
                    (each.job_id, each.lease) for each in answers if each.is_lost
                )
            self._sending_notes = []


def _log_settled_run(ended: EndedRun, answer: Settled) -> None:
    job, report, duration_s = ended
    verdict = report.verdict or RELEASED
    event, level = _choose_event(answer, verdict)
    if not logs.is_enabled(level):
        return
    error = verdict.error or {}
    logs.emit(
        event,
        level=level,
        **logs.job_fields(job),
        outcome=verdict.outcome,
        state=answer.state,
        error=error.get("type") and f"{error['type']}: {error.get('message')}",
        duration_ms=round(duration_s * 1000, 3),
    )


def _count_settled(meters: Meters, ended: Sequence[EndedRun], answers: Sequence[Settled]) -> None:
    by_lease = {lease_key(each): each for each in ended}
    for answer in answers:
        each = by_lease[answer.job_id, answer.lease]
        job, report, _ = each
        verdict = report.verdict or RELEASED
        if answer.status is SettleStatus.LOST:
            meters.lost_leases += _choose_event(answer, verdict)[0] == "job.lost"
            continue
        meters.record_ended(verdict.outcome, [each])
        if answer.state is State.DEAD:
            meters.dead[job.definition] += 1
        elif verdict.outcome in _FAILURES and answer.state is not None:
            meters.retries[job.definition] += 1


def _choose_event(answer: Settled, verdict: Verdict) -> tuple[str, logs.LogLevel]:
    if answer.status is SettleStatus.LOST:
        # A job that was completed in its handler's transaction no longer holds its lease.
        is_committed = (verdict.error or {}).get("type") == NotCommitted.__name__
        return ("job.finished", "debug") if is_committed else ("job.lost", "warning")
    if answer.state is State.DEAD:
        return "job.dead", "error"
    if verdict.outcome in _FAILURES:
        return "job.failed", "warning"
    return "job.finished", "debug"
