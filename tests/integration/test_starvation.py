"""Jobs and tenants that exhaust a shared resource of a worker affect only themselves."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from attacks import Attempts
from integration.isolation_rig import IsolationRig, error, outcome

from jobforge.connectors.egress.dns_thread_pool import Resolver
from jobforge.errors import DeadlineExceeded, Json
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.jobs import ClaimedJob, Outcome
from jobforge.worker.notes import NoteBuffer

pytestmark = [pytest.mark.attack("log floods"), pytest.mark.anyio]
FLOOD = 20_000


@pytest.fixture(scope="module")
def rig() -> Iterator[IsolationRig]:
    created = IsolationRig()
    yield created
    created.close()


def test_a_flood_of_log_lines_delays_only_its_own_job(
    rig: IsolationRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = NoteBuffer()
    monkeypatch.setattr(rig.host, "note", notes.add)

    async def run() -> tuple[UUID, UUID]:
        quiet = rig.start("log_lines", count=200)
        flooder = rig.start("log_lines", count=FLOOD)
        for each in (quiet, flooder):
            assert outcome(await each.report()) is Outcome.SUCCEEDED
        return flooder.job.job_id, quiet.job.job_id

    flooder, quiet = rig.run_in_loop(run())
    lines: dict[UUID, list[Json]] = {flooder: [], quiet: []}
    while batch := asyncio.run(notes.take()):
        for note in batch:
            lines[note.job_id].append(note.data)
    assert [line["number"] for line in lines[quiet]] == list(range(200))
    dropped = FLOOD - 1_000
    assert lines[flooder][0]["message"].startswith(f"{dropped:,} lines dropped")
    assert [line["number"] for line in lines[flooder][1:]] == list(range(dropped, FLOOD))


def test_a_job_that_sends_requests_without_reading_is_ended_early(
    rig: IsolationRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> int:
        asked = 0

        async def ask(_job: ClaimedJob, _kind: str, _data: Json) -> Json:
            nonlocal asked
            asked += 1
            await asyncio.Event().wait()  # as with a database that does not respond

        monkeypatch.setattr(rig.host, "request", ask)
        report = await rig.start("ask_at_once", questions=5_000).report()
        assert outcome(report) is Outcome.CRASHED
        assert error(report)["message"] == (
            "Sent requests to its worker without reading the responses"
        )
        return asked

    assert rig.run_in_loop(run()) <= 16


class NameServers:
    """Fake name servers: those of names that end in .dead do not respond until `answer` is set."""

    def __init__(self) -> None:
        self.answer = threading.Event()
        self.waiting: Counter[str] = Counter()

    def look_up(self, host: str, _port: int) -> Sequence[str]:
        if host.endswith(".dead"):
            self.waiting["dead"] += 1
            self.answer.wait()
        return ["93.184.216.34"]


@asynccontextmanager
async def _start_lookups(
    resolver: Resolver, tenant_id: UUID, hosts: Sequence[str]
) -> AsyncIterator[list["asyncio.Task[Sequence[str]]"]]:
    """Start lookups as jobs of a tenant do."""
    job = cast("ClaimedJob", SimpleNamespace(tenant_id=tenant_id))
    token = CURRENT_JOB.set(job)
    tasks = [asyncio.create_task(cast("Any", resolver.resolve(host, 443))) for host in hosts]
    CURRENT_JOB.reset(token)
    yield tasks
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_names_without_a_responding_server_delay_only_their_own_tenant(
    attempts: Attempts,
) -> None:
    names = NameServers()
    resolver = Resolver(names.look_up, threads=32, share=4, timeout_s=600)
    slow = [f"{number}.dead" for number in range(64)]
    attempts(len(slow))
    async with _start_lookups(resolver, uuid4(), slow) as dead:
        others = [f"{number}.live" for number in range(64)]
        async with _start_lookups(resolver, uuid4(), others) as live:
            assert await asyncio.gather(*live) == [["93.184.216.34"]] * 64
        assert names.waiting["dead"] == 4
        assert not any(task.done() for task in dead)
        names.answer.set()
        assert len(await asyncio.gather(*dead)) == 64


async def test_an_abandoned_lookup_counts_until_its_thread_is_free() -> None:
    names = NameServers()
    resolver = Resolver(names.look_up, threads=8, share=2, timeout_s=0.05)
    tenant = uuid4()
    for _ in range(3):
        async with _start_lookups(resolver, tenant, ["a.dead", "b.dead", "c.dead"]) as dead:
            for task in dead:
                with pytest.raises(DeadlineExceeded, match=r"Resolving .* took longer than"):
                    await task
    assert names.waiting["dead"] == 2
    names.answer.set()
    patient = Resolver(names.look_up, threads=8, share=2)
    async with _start_lookups(patient, tenant, ["a.live"]) as live:
        assert await live[0] == ["93.184.216.34"]
