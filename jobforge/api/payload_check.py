"""Payloads against the parameters that their definition was registered with, before a job is made.

What a definition says is remembered for a few seconds. A schema that cannot be used is no reason to
refuse a job: the worker checks again.
"""

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass

from jobforge import calls
from jobforge.api.request_body import LARGE_BYTES
from jobforge.db import Database
from jobforge.errors import Json, NotFound
from jobforge.payloads import json_schema
from jobforge.payloads.json_schema import Validator
from jobforge.types.jobs import JobRequest

_REMEMBERED_S = 5.0
_MOST_REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class _CachedValidator:
    validator: Validator | None
    until: float


class PayloadChecker:
    """Checks jobs that are about to be enqueued."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache: OrderedDict[tuple[str, int | None], _CachedValidator] = OrderedDict()

    async def check(self, jobs: list[JobRequest], *, path: str, size: int = 0) -> None:
        """Raises InvalidPayload; `path` leads to a job's payload, with {} for its index. `size` is
        that of the body; the jobs of a large one are checked in a thread."""
        now = time.monotonic()
        validators = []
        for job in jobs:
            known = self._cache.get((job.definition, job.version))
            if known is None or known.until < now:
                known = await self._look_up(job.definition, job.version)
            validators.append(known.validator)
        if size <= LARGE_BYTES:
            _check_all(jobs, validators, path)
        else:
            await asyncio.to_thread(_check_all, jobs, validators, path)

    async def check_one(self, definition: str, version: int | None, payload: Json) -> None:
        await self.check([JobRequest(definition, payload, version)], path="payload")

    async def _look_up(self, definition: str, version: int | None) -> _CachedValidator:
        key, _, named = definition.partition("@")
        asked = int(named) if named.isdecimal() and len(named) < 10 else version
        try:
            found = await self._database.run(calls.get_definition(key, version=asked))
            schema = found.parameters
        except NotFound:
            schema = None  # the engine refuses the job, and says why
        known = _CachedValidator(
            json_schema.compile_validator(definition, schema), time.monotonic() + _REMEMBERED_S
        )
        self._cache[definition, version] = known
        self._cache.move_to_end((definition, version))
        while len(self._cache) > _MOST_REMEMBERED:
            self._cache.popitem(last=False)
        return known


def _check_all(jobs: list[JobRequest], validators: list[Validator | None], path: str) -> None:
    for index, (job, validator) in enumerate(zip(jobs, validators, strict=True)):
        json_schema.check_payload(validator, job.payload or {}, path.format(index))
