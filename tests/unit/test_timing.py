"""Caches that expire, and pauses that grow."""

from itertools import pairwise

import pytest

from jobforge.timing import ttl_cache
from jobforge.timing.backoff import ExponentialBackoff
from jobforge.timing.ttl_cache import TtlCache


class Clock:
    """Replaces `time` in the module of the cache."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(ttl_cache, "time", clock)
    return clock


def test_an_entry_expires(clock: Clock) -> None:
    cache: TtlCache[str, int] = TtlCache(10)
    assert cache.put("a", 1) == 1
    clock.now += 9.9
    assert cache.get("a") == 1
    clock.now += 0.2
    assert cache.get("a") is None


def test_putting_an_entry_again_renews_it(clock: Clock) -> None:
    cache: TtlCache[str, int] = TtlCache(10, size=2)
    cache.put("a", 1)
    cache.put("b", 2)
    clock.now += 8
    cache.put("a", 3)
    cache.put("c", 4)  # drops b, the oldest
    clock.now += 8
    assert [cache.get(key) for key in "abc"] == [3, None, 4]


def test_an_entry_is_popped_once(clock: Clock) -> None:
    cache: TtlCache[str, int] = TtlCache(10)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.pop("a") == 1
    assert cache.pop("a") is None
    clock.now += 10
    assert cache.pop("b") is None


def test_pauses_grow_up_to_the_longest() -> None:
    backoff = ExponentialBackoff(1, 100)
    pauses = [backoff.next_pause_s() for _ in range(200)]
    limits = [min(100, 2**number) for number in range(200)]
    assert all(limit / 2 <= pause <= limit for pause, limit in zip(pauses, limits, strict=True))
    assert len(set(pauses)) > 100  # random
    assert any(shorter < longer for shorter, longer in pairwise(pauses))
    backoff.reset()
    assert backoff.next_pause_s() <= 1
