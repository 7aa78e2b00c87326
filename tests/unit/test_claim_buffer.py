"""Claimed jobs that wait to be started: when there should be few of them."""

from uuid import UUID

import pytest

from jobforge.calls import PendingResult
from jobforge.types.jobs import ClaimedJob
from jobforge.worker.claim_buffer import SMALL_BUFFER, ClaimBuffer

pytestmark = pytest.mark.anyio

LOTS = 5 * SMALL_BUFFER


def _job(tenant: int) -> ClaimedJob:
    return ClaimedJob(
        *(UUID(int=tenant), UUID(int=0), 1, "noop", 1, "default", 1, 3, None, b"", "api"),
        *(None, None, None, None, "{}"),
    )


async def _with(*tenants: int) -> ClaimBuffer:
    """Return a buffer with two equal claims: one was read, one waits."""
    ready = ClaimBuffer()
    for _ in range(2):
        ready.add(PendingResult.from_value(len(tenants), [_job(tenant) for tenant in tenants]), 0.0)
    await ready.read_next()
    return ready


async def test_few_jobs_of_a_flood_are_kept_while_another_tenant_has_jobs() -> None:
    ready = await _with(*[1] * LOTS, 2)
    assert ready.is_flooded
    assert ready.is_crowded
    ready.jobs.clear()
    await ready.read_next()
    ready.jobs.clear()
    assert not ready.is_crowded


async def test_a_single_tenant_is_not_a_flood() -> None:
    ready = await _with(*[1] * LOTS)
    assert not ready.is_flooded
    assert not ready.is_crowded


async def test_tenants_with_equal_numbers_of_jobs_are_not_a_flood() -> None:
    ready = await _with(*range(LOTS))
    assert not ready.is_flooded
    assert not ready.is_crowded


async def test_jobs_of_others_are_started_before_those_of_a_flood() -> None:
    ready = await _with(*[1] * SMALL_BUFFER, 2, *[1] * SMALL_BUFFER, 3)
    tenants = [job.tenant_id.int for job, _ in ready.jobs]
    assert tenants[:2] == [2, 3]
    assert set(tenants[2:]) == {1}
