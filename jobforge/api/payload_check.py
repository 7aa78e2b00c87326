"""Validates payloads against their definition's JSON Schema before jobs are enqueued.

Schemas are cached for 5 seconds. An unusable schema does not reject a job: the worker validates
again.
"""

import asyncio
from dataclasses import dataclass

from jobforge import calls
from jobforge.api.request_body import LARGE_BYTES
from jobforge.db import Database
from jobforge.errors import Json, NotFound
from jobforge.payloads import schema_validation
from jobforge.payloads.schema_validation import Validator
from jobforge.timing.ttl_cache import TtlCache
from jobforge.types.jobs import JobRequest

_REMEMBERED_S = 5.0
_MOST_REMEMBERED = 1000

Check = tuple[Validator, Json, str]  # with the payload and its location in the body


@dataclass(frozen=True, slots=True)
class _CachedValidator:
    validator: Validator | None


class PayloadChecker:
    """Validates the payloads of jobs about to be enqueued."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache: TtlCache[tuple[str, int | None], _CachedValidator] = TtlCache(
            _REMEMBERED_S, size=_MOST_REMEMBERED
        )

    async def check(self, jobs: list[JobRequest], *, path: str, size: int = 0) -> None:
        """Raise InvalidPayload for the first invalid payload.

        `path` locates a payload in the body, with {} for the job's index. `size` is the size of the
        body; the jobs of a large body are checked in a thread.
        """
        checks: list[Check] = []
        for index, job in enumerate(jobs):
            cached = self._cache.get((job.definition, job.version))
            if cached is None:
                cached = await self._look_up(job.definition, job.version)
            if cached.validator is not None:
                checks.append((cached.validator, job.payload or {}, path.format(index)))
        if size <= LARGE_BYTES:
            _check_all(checks)
        else:
            await asyncio.to_thread(_check_all, checks)

    async def check_one(self, definition: str, version: int | None, payload: Json) -> None:
        await self.check([JobRequest(definition, payload, version)], path="payload")

    async def _look_up(self, definition: str, version: int | None) -> _CachedValidator:
        key, _, version_text = definition.partition("@")
        effective_version = (
            int(version_text) if version_text.isdecimal() and len(version_text) < 10 else version
        )
        try:
            found = await self._database.run(calls.get_definition(key, version=effective_version))
            schema = found.parameters
        except NotFound:
            schema = None  # the engine rejects the job with the reason
        validator = schema_validation.compile_validator(definition, schema)
        return self._cache.put((definition, version), _CachedValidator(validator))


def _check_all(checks: list[Check]) -> None:
    for validator, payload, path in checks:
        schema_validation.check_payload(validator, payload, path)
