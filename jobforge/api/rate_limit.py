"""Rate limits per key and per tenant: token buckets in the database, shared by all servers.

One query per request would be too expensive. A server takes tokens from the shared bucket in
batches and hands them out locally; it drops tokens left after 2 seconds.
"""

import asyncio
import time
from dataclasses import dataclass, field
from uuid import UUID

from jobforge import calls
from jobforge.api.auth.principal import Principal
from jobforge.config import Config
from jobforge.db import Database
from jobforge.errors import TooManyRequests
from jobforge.timing.ttl_cache import TtlCache

BucketKey = str | UUID  # actor or tenant

_BURST_S = 2  # seconds of the rate that may arrive in a burst
_BATCHES_PER_S = 10
_BATCH_LIFETIME_S = 2.0
_UNUSED_S = 60.0  # then a batch is dropped


@dataclass(slots=True)
class _TokenBatch:
    """Tokens of one bucket on this server, or the time until which the bucket is empty."""

    left: int = 0
    until: float = 0.0
    refused_until: float = 0.0
    refill_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def take_if_left(self) -> bool:
        """Take a token; return False if a refill is needed. Raise TooManyRequests."""
        now = time.monotonic()
        if self.left > 0 and now < self.until:
            self.left -= 1
            return True
        if now < self.refused_until:
            raise _refusal(self.refused_until - now)
        return False


class RateLimiter:
    """Applies the configured limits; a limit of 0 is off."""

    def __init__(self, config: Config, database: Database) -> None:
        self._database = database
        self._key_rate = config.request_rate
        self._tenant_rate = config.tenant_request_rate
        self._batches: TtlCache[BucketKey, _TokenBatch] = TtlCache(_UNUSED_S)
        self._failures: TtlCache[str, _FailureBucket] = TtlCache(_BURST_S)  # full again by then

    async def check_key(self, principal: Principal) -> None:
        """Count a request of a key, including requests refused later. Raise TooManyRequests."""
        await self._check(principal.actor, self._key_rate)

    async def check_tenant(self, principal: Principal) -> None:
        """Count a request for a tenant. Raise TooManyRequests."""
        if principal.tenant_id is not None:
            await self._check(principal.tenant_id, self._tenant_rate)

    def check_failure(self, address: str) -> None:
        """Count a request without a valid key; raise TooManyRequests above the rate of one key.

        The limit is per address and does not affect valid keys from the same address. Each server
        counts separately: otherwise, anyone could fill the table of shared buckets.
        """
        if not self._key_rate:
            return
        failures = self._failures.get(address)
        if failures is None:
            failures = _FailureBucket(self._key_rate * _BURST_S, time.monotonic())
        self._failures.put(address, failures).take(self._key_rate)

    async def _check(self, bucket: BucketKey, rate: int) -> None:
        if not rate:
            return
        batch = self._batches.get(bucket) or self._batches.put(bucket, _TokenBatch())
        if batch.take_if_left():
            return
        # One request refills for all that wait; otherwise each of them would refill.
        async with batch.refill_lock:
            if not batch.take_if_left():
                await self._refill(bucket, batch, rate)

    async def _refill(self, bucket: BucketKey, batch: _TokenBatch, rate: int) -> None:
        size = max(1, rate // _BATCHES_PER_S)
        name = bucket if isinstance(bucket, str) else f"tenant:{bucket}"
        result = await self._database.run(
            calls.take_request(name, rate=rate / size, burst=max(1, rate * _BURST_S // size))
        )
        now = time.monotonic()
        self._batches.put(bucket, batch)
        if not result.allowed:
            batch.left, batch.refused_until = 0, now + result.retry_after_s
            raise _refusal(result.retry_after_s)
        batch.left, batch.until = size - 1, now + _BATCH_LIFETIME_S


@dataclass(slots=True)
class _FailureBucket:
    """Local token bucket of one address."""

    left: float
    at: float

    def take(self, rate: int) -> None:
        now = time.monotonic()
        self.left = min(rate * _BURST_S, self.left + (now - self.at) * rate)
        self.at = now
        if self.left < 1:
            raise _refusal((1 - self.left) / rate)
        self.left -= 1


def _refusal(wait_s: float) -> TooManyRequests:
    return TooManyRequests(detail={"retry_after_s": round(wait_s, 3)})
