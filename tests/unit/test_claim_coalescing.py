"""When a busy worker claims and settles next."""

import asyncio
from collections.abc import Callable

from jobforge.worker.slots import Pacer, Slots


class _Worker:
    """A worker with four slots of one queue, all in use, and the wake-ups that its pacer sent."""

    def __init__(self, *, has_more: bool) -> None:
        slots = Slots({"mail": 4})
        slots.reserve({"mail": 4 if has_more else 5}, {"mail": 4})
        self.wakeups: list[str] = []
        self.was_woken = asyncio.Event()
        self.pacer = Pacer(slots, lambda: self._wake("claim"), lambda: self._wake("settle"))

    def _wake(self, what: str) -> None:
        self.wakeups.append(what)
        self.was_woken.set()


def _wakeups(act: Callable[[_Worker], object], *, has_more: bool = True) -> list[str]:
    """Return the wake-ups sent at once, or if there were none, those sent later."""

    async def run() -> list[str]:
        worker = _Worker(has_more=has_more)
        act(worker)
        at_once = [*worker.wakeups]
        await worker.was_woken.wait()
        return at_once or ["later", *worker.wakeups]

    return asyncio.run(run())


def test_two_finished_jobs_of_four_slots_share_a_wakeup() -> None:
    def act(worker: _Worker) -> None:
        worker.pacer.record_ends("mail", ran_s=60)
        assert worker.wakeups == []
        worker.pacer.record_ends("mail", ran_s=60)

    assert _wakeups(act) == ["claim", "settle"]


def test_a_single_finished_job_causes_a_wakeup_too() -> None:
    assert _wakeups(lambda worker: worker.pacer.record_ends("mail", ran_s=60)) == [
        "later",
        "claim",
        "settle",
    ]


def test_a_finished_job_is_settled_at_once_when_no_more_jobs_are_waiting() -> None:
    assert _wakeups(lambda worker: worker.pacer.record_ends("mail", ran_s=60), has_more=False) == [
        "settle"
    ]


def test_a_job_that_took_no_time_is_not_delayed() -> None:
    assert _wakeups(lambda worker: worker.pacer.record_ends("mail")) == ["claim", "settle"]
