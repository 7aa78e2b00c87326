"""The number of jobs of each queue that may still be started."""

from collections import Counter

from jobforge.worker.slots import Slots


def _jobs(*queues: str) -> Counter[str]:
    return Counter(queues)


def test_a_claim_requests_only_free_slots() -> None:
    slots = Slots({"mail": 2, "default": 1})
    slots.reserve(slots.limits(2_000), _jobs("mail", "default"))
    assert slots.limits(2_000) == {"mail": 1}
    slots.reserve(slots.limits(2_000), _jobs("mail"))
    assert slots.limits(2_000) == {}
    slots.release("default")
    assert slots.limits(2_000) == {"default": 1}


def test_a_queue_with_more_slots_than_one_claim_may_fill_does_not_starve_another() -> None:
    slots = Slots({"mail": 100_000, "default": 10})
    limits = slots.limits(2_000)
    assert sum(limits.values()) <= 2_000
    assert limits["default"] == 10


def test_a_freed_slot_matters_when_the_last_claim_was_filled_completely() -> None:
    slots = Slots({"mail": 2})
    slots.reserve({"mail": 2}, _jobs("mail", "mail"))
    assert slots.release("mail")
    slots.reserve({"mail": 1}, _jobs())
    assert not slots.release("mail")


def test_an_empty_queue_does_not_hide_that_another_has_more_jobs() -> None:
    slots = Slots({"mail": 2, "connectors": 2})
    assert slots.reserve({"mail": 1, "connectors": 2}, _jobs("mail"))
    rooms = [slots.has_room_for_more]
    assert slots.reserve({"mail": 1, "connectors": 2}, _jobs("mail"))
    rooms.append(slots.has_room_for_more)  # next, only the empty queue
    assert slots.release("mail")
    rooms.append(slots.has_room_for_more)
    assert rooms == [True, False, True]
    assert not slots.reserve({"mail": 1, "connectors": 2}, _jobs())


def test_a_queue_has_room_for_more_when_half_of_its_slots_are_free() -> None:
    slots = Slots({"mail": 4})
    slots.reserve({"mail": 4}, _jobs(*["mail"] * 4))
    slots.release("mail")
    rooms = [slots.has_room_for_more]
    slots.release("mail")
    rooms.append(slots.has_room_for_more)
    assert rooms == [False, True]


def test_a_large_queue_has_room_for_more_when_a_few_of_its_slots_are_free() -> None:
    slots = Slots({"mail": 2_000})
    slots.reserve({"mail": 2_000}, Counter(mail=2_000))
    slots.release(*["mail"] * 8)
    assert slots.has_room_for_more


def test_a_queue_that_may_be_empty_is_not_included() -> None:
    slots = Slots({"mail": 2, "connectors": 2})
    slots.reserve({"mail": 1, "connectors": 2}, _jobs("mail"))
    assert slots.limits_for_ready_queues(2_000) == {"mail": 1}
    slots.mark_has_jobs("connectors")
    assert slots.limits_for_ready_queues(2_000) == {"mail": 1, "connectors": 2}


def test_a_freed_slot_matters_when_the_queue_has_been_announced() -> None:
    slots = Slots({"mail": 2})
    slots.reserve({"mail": 2}, _jobs("mail"))
    slots.mark_has_jobs("mail")
    assert slots.release("mail")


def test_an_announcement_for_an_unserved_queue_is_ignored() -> None:
    slots = Slots({"mail": 1})
    slots.mark_has_jobs("other")
    assert slots.limits(2_000) == {"mail": 1}
