"""How fast a key and a tenant may ask: token buckets that all servers share.

One request is not worth a query. So a server takes requests from the shared bucket in lots, and
hands them out by itself; a lot that is not used up within two seconds is dropped.
"""

import time
from collections import OrderedDict
from dataclasses import dataclass
from uuid import UUID

from jobforge import calls
from jobforge.api.principal import Principal
from jobforge.config import Config
from jobforge.db import Database
from jobforge.errors import TooManyRequests

Bucket = str | UUID  # an actor, or a tenant

_BURST_S = 2  # of the rate may come at once
_LOTS_PER_S = 10
_KEPT_S = 2.0
_MOST_BUCKETS = 10_000


@dataclass(slots=True)
class _Lot:
    """Requests that this server may let through, or until when it need not ask for more."""

    left: int
    until: float
    refused_until: float = 0.0


class Rates:
    """The limits of the configuration; 0 is none."""

    def __init__(self, config: Config, database: Database) -> None:
        self._database = database
        self._by_key = config.request_rate
        self._by_tenant = config.tenant_request_rate
        self._lots: OrderedDict[Bucket, _Lot] = OrderedDict()

    async def check(self, principal: Principal) -> None:
        """Raises TooManyRequests."""
        if self._by_key and not self._has_left(principal.actor):
            await self._take_lot(principal.actor, self._by_key)
        tenant_id = principal.tenant_id
        if self._by_tenant and tenant_id is not None and not self._has_left(tenant_id):
            await self._take_lot(tenant_id, self._by_tenant)

    def _has_left(self, bucket: Bucket) -> bool:
        """Whether the lot at hand lets one more through; that one is taken from it."""
        now = time.monotonic()
        lot = self._lots.get(bucket)
        if lot is None:
            return False
        if lot.left > 0 and now < lot.until:
            lot.left -= 1
            return True
        if now < lot.refused_until:
            raise _refusal(lot.refused_until - now)
        return False

    async def _take_lot(self, bucket: Bucket, rate: int) -> None:
        size = max(1, rate // _LOTS_PER_S)
        name = bucket if isinstance(bucket, str) else f"tenant:{bucket}"
        taken = await self._database.run(
            calls.take_request(name, rate=rate / size, burst=max(1, rate * _BURST_S // size))
        )
        now = time.monotonic()
        if not taken.allowed:
            self._keep(bucket, _Lot(0, now, refused_until=now + taken.retry_after_s))
            raise _refusal(taken.retry_after_s)
        self._keep(bucket, _Lot(size - 1, now + _KEPT_S))

    def _keep(self, bucket: Bucket, lot: _Lot) -> None:
        self._lots[bucket] = lot
        self._lots.move_to_end(bucket)
        while len(self._lots) > _MOST_BUCKETS:
            self._lots.popitem(last=False)


def _refusal(wait_s: float) -> TooManyRequests:
    return TooManyRequests(detail={"retry_after_s": round(wait_s, 3)})
