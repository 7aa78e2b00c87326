"""Store the results of running jobs' steps in batches (group commit) while the jobs wait.

Steps collect while a batch is in flight and go into the next one. After a lost connection the batch
is sent again, as long as the jobs hold their leases; the engine recognizes steps that it has
already stored.
"""

from asyncio import Future, get_running_loop
from collections import deque

from jobforge import calls
from jobforge.db.background_loop import BackgroundLoop
from jobforge.db.outage import MonitoredLink
from jobforge.errors import Contended, InvalidResult, LeaseLost, Unavailable
from jobforge.sdk.worker_requests import check_saved
from jobforge.types.jobs import SaveStatus, Step
from jobforge.worker.worker_state import WorkerState

_LARGEST_BATCH = 100

PendingStep = tuple[Step, "Future[None]"]


class StepWriter:
    def __init__(self, state: WorkerState, link: MonitoredLink) -> None:
        self._state = state
        self._link = link
        self._pending: deque[PendingStep] = deque()
        self._sending: list[PendingStep] = []
        self._batch_limit = _LARGEST_BATCH

    def add(self, step: Step) -> "Future[None]":
        """Queue the step; return a future that is done once the step is stored."""
        stored: Future[None] = get_running_loop().create_future()
        self._pending.append((step, stored))
        self._state.wake_step_writer.set()
        return stored

    async def step(self, loop: BackgroundLoop) -> None:
        while self._pending and len(self._sending) < self._batch_limit:
            self._sending.append(self._pending.popleft())
        # Drop the steps of jobs that were stopped in the meantime.
        self._sending = [pending for pending in self._sending if not pending[1].done()]
        if not self._sending:
            await loop.wait_for_wake()
            return
        try:
            call = calls.save_steps(self._state.worker_id, [step for step, _ in self._sending])
            answers = await self._link.run(call)
        except (Unavailable, Contended):
            raise
        except Exception as error:  # noqa: BLE001 - the job gets the error, the loop continues
            if len(self._sending) > 1:
                self._halve()
                return
            _resolve_future(self._sending[0][1], error)
        else:
            for (step, stored), status in zip(self._sending, answers, strict=True):
                self._resolve(step, stored, status)
        self._sending = []
        self._batch_limit = min(_LARGEST_BATCH, self._batch_limit * 2)

    def _halve(self) -> None:
        """Halve the batch, so that the error of a bad step reaches only its own job."""
        self._batch_limit = len(self._sending) // 2
        self._pending.extendleft(reversed(self._sending[self._batch_limit :]))
        del self._sending[self._batch_limit :]

    def _resolve(self, step: Step, stored: "Future[None]", status: SaveStatus) -> None:
        try:
            check_saved(step.name, status)
        except (LeaseLost, InvalidResult) as error:
            _resolve_future(stored, error)
        else:
            _resolve_future(stored, None)
        if status is SaveStatus.LOST:
            self._state.leases.mark_lost([(step.job_id, step.lease)])


def _resolve_future(stored: "Future[None]", error: Exception | None) -> None:
    if stored.done():  # the job was stopped in the meantime
        return
    if error is None:
        stored.set_result(None)
    else:
        stored.set_exception(error)
