"""When a busy worker claims and settles next."""

import asyncio
from collections.abc import Callable

from jobforge.worker.pacing import Pacer
from jobforge.worker.slots import Slots


class _Desk:
    """Four slots of one queue, all taken, and what was rung for."""

    def __init__(self, *, has_more: bool) -> None:
        slots = Slots({"mail": 4})
        slots.reserve({"mail": 4 if has_more else 5}, {"mail": 4})
        self.rung: list[str] = []
        self.was_rung = asyncio.Event()
        self.turns = Pacer(slots, lambda: self._ring("claim"), lambda: self._ring("settle"))

    def _ring(self, what: str) -> None:
        self.rung.append(what)
        self.was_rung.set()


def _rung(act: Callable[[_Desk], object], *, has_more: bool = True) -> list[str]:
    """What was rung for at once, and when nothing was, what was later."""

    async def run() -> list[str]:
        desk = _Desk(has_more=has_more)
        act(desk)
        at_once = [*desk.rung]
        await desk.was_rung.wait()
        return at_once or ["later", *desk.rung]

    return asyncio.run(run())


def test_two_ends_of_four_slots_share_a_turn() -> None:
    def act(desk: _Desk) -> None:
        desk.turns.record_ends("mail", ran_s=60)
        assert desk.rung == []
        desk.turns.record_ends("mail", ran_s=60)

    assert _rung(act) == ["claim", "settle"]


def test_an_end_that_stays_alone_has_its_turn_too() -> None:
    assert _rung(lambda desk: desk.turns.record_ends("mail", ran_s=60)) == [
        "later",
        "claim",
        "settle",
    ]


def test_an_end_is_settled_at_once_when_no_more_jobs_are_waiting() -> None:
    assert _rung(lambda desk: desk.turns.record_ends("mail", ran_s=60), has_more=False) == [
        "settle"
    ]


def test_a_job_that_took_no_time_waits_for_nobody() -> None:
    assert _rung(lambda desk: desk.turns.record_ends("mail")) == ["claim", "settle"]
