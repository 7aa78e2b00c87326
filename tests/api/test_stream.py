"""The live stream: each client gets each event of its tenant once, and none of other tenants."""

import asyncio
import select
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from api.api_server import API, ApiServer, TenantKeys, serve_in_thread
from api.stream_listener import StreamListener, listen_to_stream
from cluster import Connection, connect_to, wait_until
from integration.worker_harness import cut_connections, eventually
from sql.engine import Row, call, claim, complete, enqueue, new_worker, note

from jobforge import db
from jobforge.api.live import client_stream as feeding
from jobforge.api.live import sse
from jobforge.api.live.client_stream import stream_events
from jobforge.api.live.hub import Hub
from jobforge.api.live.subscription import StreamFilter
from jobforge.config import Config
from jobforge.errors import Unauthenticated

pytestmark = pytest.mark.anyio

WORKER = new_worker()
FOLLOW = {"follow": "true"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def running(api: ApiServer, party: TenantKeys, n: int, definition: str = "plain") -> list[Row]:
    """Return running jobs of a tenant."""
    enqueue(api.conn, party.tenant_id, n, definition=definition)
    queue = "mail" if definition == "mail" else "default"
    return claim(api.conn, WORKER, queue, limit=n, tenants=[party.tenant_id])


def ids(jobs: list[Row]) -> list[UUID]:
    return [job["job_id"] for job in jobs]


async def test_a_client_receives_ends_events_and_queue_counts(
    api: ApiServer,
) -> None:
    jobs = running(api, api.a, 2)
    async with listen_to_stream(api, api.a) as listener:
        note(api.conn, WORKER, jobs[:1], "progress", done=1)
        note(api.conn, WORKER, jobs[:1], "event", name="seen", password="hunter2hunter2")
        error = {"type": "Oops", "message": "no answer"}
        complete(api.conn, WORKER, jobs[:1], "failed", error=error, final=True)
        await listener.until(lambda it: len(it.jobs()) == 1 and bool(it.data_of("snapshot")))
        [attempt] = listener.data_of("attempt")
        assert (attempt["outcome"], attempt["state"], attempt["error"]) == ("failed", "dead", error)
        assert [event["name"] for event in listener.data_of("event")] == ["progress", "event"]
        assert "hunter2" not in str(listener.events)
        await listener.until(lambda it: _queue_counts(it).get("dead") == 1)
        enqueue(api.conn, api.a.tenant_id, 3, definition="plain", delay_s=3600)
        await listener.until(lambda it: _queue_counts(it).get("scheduled") == 3)


async def test_each_of_20_clients_receives_late_commits_exactly_once(
    api: ApiServer,
) -> None:
    jobs = {party.tenant_id: running(api, party, 12) for party in (api.a, api.b)}
    async with AsyncExitStack() as stack:
        parties = [party for party in (api.a, api.b) for _ in range(10)]
        listeners = await asyncio.gather(
            *(stack.enter_async_context(listen_to_stream(api, party)) for party in parties)
        )
        _end_out_of_order(api, [*jobs[api.a.tenant_id], *jobs[api.b.tenant_id]])
        for party, listener in zip(parties, listeners, strict=True):
            await listener.until(lambda it: len(it.jobs()) >= 12)
            assert sorted(listener.jobs()) == sorted(ids(jobs[party.tenant_id]))
            assert {data["tenant_id"] for _, data in listener.events if "tenant_id" in data} == {
                str(party.tenant_id)
            }


async def test_a_reconnected_client_gets_the_rest_from_any_server(api: ApiServer) -> None:
    jobs, others = running(api, api.a, 6), running(api, api.b, 2)
    async with listen_to_stream(api, api.a) as listener:
        complete(api.conn, WORKER, jobs[:2])
        await listener.until(lambda it: len(it.jobs()) == 2)
    with connect_to(api.database.url, autocommit=False) as held:
        complete(held, WORKER, jobs[2:3])
        complete(api.conn, WORKER, [*jobs[3:5], *others])
        async with listen_to_stream(api, api.a, last_id=listener.last_id) as again:
            held.commit()
            await again.until(lambda it: len(it.jobs()) == 3)
            complete(api.conn, WORKER, jobs[5:])
            await again.until(lambda it: len(it.jobs()) == 4)
            assert sorted(again.jobs()) == sorted(ids(jobs[2:]))
    config = Config(database_url=api.database.url_as("server_login"), access_log=False)
    with serve_in_thread(config) as url:
        async with listen_to_stream(api, api.a, url=url, last_id=listener.last_id) as elsewhere:
            await elsewhere.until(lambda it: len(it.jobs()) == 4)
            assert elsewhere.jobs() == again.jobs()


async def test_an_unknown_position_is_reset_and_the_stream_continues(api: ApiServer) -> None:
    jobs = running(api, api.a, 3)
    wrong = {"nonsense": "unknown", "9223372036854775807:1": "unknown", "1:1": "expired"}
    for (position, reason), job in zip(wrong.items(), jobs, strict=True):
        async with listen_to_stream(api, api.a, last_id=position) as listener:
            await listener.until(lambda it: bool(it.data_of("reset")))
            assert listener.data_of("reset") == [{"reason": reason}]
            complete(api.conn, WORKER, [job])
            await listener.until(lambda it: bool(it.jobs()))
            assert listener.jobs() == [job["job_id"]]


async def test_filters_exclude_all_other_events(api: ApiServer) -> None:
    plain, mail = running(api, api.a, 3), running(api, api.a, 1, "mail")
    async with AsyncExitStack() as stack:
        by_job, by_definition, by_state, failed, everybody = [
            await stack.enter_async_context(listen_to_stream(api, party, filters=filters))
            for party, filters in [
                (api.a, {"job": [str(plain[0]["job_id"])]}),
                (api.a, {"definition": ["mail"]}),
                (api.a, {"state": ["dead", "canceled"]}),
                (api.a, {"state": ["failed"]}),
                (None, {}),
            ]
        ]
        complete(api.conn, WORKER, plain[:1])
        complete(api.conn, WORKER, mail)
        complete(api.conn, WORKER, plain[1:2], "canceled")
        complete(api.conn, WORKER, plain[2:], "timed_out")
        await everybody.until(lambda it: len(it.jobs()) == 4)
        await failed.until(lambda it: it.jobs() == ids(plain[2:]))
        assert by_job.jobs() == ids(plain[:1])
        assert by_definition.jobs() == ids(mail)
        assert by_state.jobs() == ids(plain[1:2])


async def test_a_log_is_followed_until_its_job_ends(api: ApiServer) -> None:
    [job] = jobs = running(api, api.a, 1)
    note(api.conn, WORKER, jobs, message="one")
    path = f"/jobs/{job['job_id']}/logs"
    async with listen_to_stream(api, api.a, path, filters=FOLLOW) as listener:
        note(api.conn, WORKER, jobs, message="two")
        await listener.until(lambda it: len(it.data_of("log")) == 2)
        note(api.conn, WORKER, jobs, message="three")
        complete(api.conn, WORKER, jobs)
        await listener.until(lambda it: it.has_ended)
        assert _messages(listener) == ["one", "two", "three"]
        [end] = listener.data_of("end")
        assert (end["state"], end["at"] is None) == ("succeeded", False)
    async with listen_to_stream(
        api, api.a, path, filters=FOLLOW, last_id=listener.data_of("log")[1]["at"]
    ) as again:
        await again.until(lambda it: it.has_ended)
        assert _messages(again) == ["three"]
    client = api.client("viewer")
    first = client.get(path, params={"limit": 2}).json()
    assert [line["data"]["message"] for line in first["items"]] == ["one", "two"]
    rest = client.get(path, params={"cursor": first["next"]}).json()
    assert [line["data"]["message"] for line in rest["items"]] == ["three"]
    foreign = api.client("viewer", api.b)
    assert foreign.get(path).status_code == 404
    assert foreign.get(path, params=FOLLOW).status_code == 404


class HubSetup:
    """A hub without a server, on a database with jobs of one tenant."""

    def __init__(self, api: ApiServer, hub: Hub) -> None:
        self.api = api
        self.hub = hub
        self.watch = StreamFilter(api.a.tenant_id)


@pytest.fixture
async def hub_setup(api: ApiServer) -> AsyncIterator[HubSetup]:
    url = api.database.url_as("server_login")
    async with db.Database(url, size=2) as database, asyncio.TaskGroup() as group:
        hub = Hub(database, poll_s=0.01)
        group.create_task(hub.run())
        yield HubSetup(api, hub)
        hub.stop()


async def test_a_slow_reader_is_disconnected_and_can_resume(
    hub_setup: HubSetup,
) -> None:
    jobs = running(hub_setup.api, hub_setup.api.a, 1)
    frames = stream_events(hub_setup.hub, hub_setup.watch, None, _allow)
    first = await anext(frames)
    position = first.decode().partition("id: ")[2].strip()
    # The reader gets its events in parts; the second subscriber, which never reads, shows when the
    # limit is exceeded.
    async with hub_setup.hub.subscribe(hub_setup.watch) as witness:
        for _ in range(3):
            note_many(hub_setup.api.conn, jobs, 500)
        await eventually(lambda: witness.end_reason is not None)
    last = await anext(frames)
    assert b'event: cut\ndata: {"reason":"slow_reader"}' in last
    with pytest.raises(StopAsyncIteration):
        await anext(frames)
    again = stream_events(hub_setup.hub, hub_setup.watch, position, _allow)
    received = b""
    async with asyncio.timeout(30):
        while received.count(b"event: event\n") < 1500:
            received += await anext(again)
    assert received.count(b"event: event\n") == 1500
    await again.aclose()
    assert hub_setup.hub.position is None  # without subscribers the hub reads nothing


def test_a_client_that_reads_nothing_is_disconnected(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    [job] = running(api, api.a, 1)
    [start] = api.conn.execute("select place from jobforge.read_stream()").fetchall()
    for _ in range(8):  # more than both socket buffers hold
        note(api.conn, WORKER, [job] * 300, "progress", text="x" * 8000)
    # The stream ends before the oldest open transaction of the cluster. Events that arrive later
    # than the client would be too many for its buffer: it would get a `cut` event instead.
    wait_until(lambda: _count_events(api.conn, start["place"]) == 8 * 300)
    monkeypatch.setattr(sse, "SEND_TIMEOUT_S", 0.2)
    url = urlsplit(api.url)
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect((url.hostname, url.port))
        head = f"GET {API}/stream HTTP/1.1\r\nHost: x\r\nLast-Event-ID: {start['place']}\r\n"
        reader.sendall(f"{head}Authorization: Bearer {api.a.keys['viewer']}\r\n\r\n".encode())
        wait_until(lambda: _was_reset(reader))


def _count_events(conn: Connection, position: str) -> int:
    rows = call(conn, "read_stream", after=position, limit=10_000)
    return sum(row["kind"] == "event" for row in rows)


def _was_reset(connection: socket.socket) -> bool:
    looked = select.poll()
    looked.register(connection, 0)
    return any(what & select.POLLERR for _, what in looked.poll(0))


async def test_nothing_is_lost_when_the_database_connections_are_cut(hub_setup: HubSetup) -> None:
    jobs = running(hub_setup.api, hub_setup.api.a, 2)
    frames = stream_events(hub_setup.hub, hub_setup.watch, None, _allow)
    await anext(frames)
    complete(hub_setup.api.conn, WORKER, jobs[:1])
    cut_connections(hub_setup.api.conn)
    complete(hub_setup.api.conn, WORKER, jobs[1:])
    received = b""
    async with asyncio.timeout(30):
        while received.count(b"event: attempt\n") < 2:
            received += await anext(frames)
    assert all(str(job_id).encode() in received for job_id in ids(jobs))
    await frames.aclose()


async def test_a_restored_database_without_the_position_disconnects_clients_which_then_resume(
    hub_setup: HubSetup,
) -> None:
    frames = stream_events(hub_setup.hub, hub_setup.watch, None, _allow)
    await anext(frames)
    of_another_cluster = f"{2**62}:1"
    hub_setup.hub._position = of_another_cluster  # noqa: SLF001 - a real restore needs a second cluster
    async with asyncio.timeout(30):
        received = [frame async for frame in frames]
    assert received[-1] == b'event: cut\ndata: {"reason":"unavailable"}\n\n'
    frames = stream_events(hub_setup.hub, hub_setup.watch, of_another_cluster, _allow)
    assert b"event: reset\n" in await anext(frames)
    complete(hub_setup.api.conn, WORKER, running(hub_setup.api, hub_setup.api.a, 1))
    async with asyncio.timeout(30):
        while b"event: attempt\n" not in await anext(frames):
            pass
    await frames.aclose()


async def test_a_client_with_a_revoked_key_is_disconnected(
    hub_setup: HubSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeding, "HEARTBEAT_S", 0.01)
    frames = stream_events(hub_setup.hub, hub_setup.watch, None, _refuse)
    received = [frame async for frame in frames]
    assert received[-1] == b'event: cut\ndata: {"reason":"unauthenticated"}\n\n'


async def test_a_stopping_server_notifies_its_clients(hub_setup: HubSetup) -> None:
    frames = stream_events(hub_setup.hub, hub_setup.watch, None, _allow)
    await anext(frames)
    hub_setup.hub.stop()
    received = [frame async for frame in frames]
    assert received[-1] == b'event: cut\ndata: {"reason":"server_stopping"}\n\n'


def note_many(conn: Connection, jobs: list[Row], n: int) -> None:
    note(conn, WORKER, jobs * n, "progress", done=1)


def _end_out_of_order(api: ApiServer, jobs: list[Row]) -> None:
    """Complete each job in a separate transaction; many are open at once and commit in reverse
    order.
    """
    held = []
    for job in jobs[::2]:
        conn = connect_to(api.database.url, autocommit=False)
        complete(conn, WORKER, [job])
        held.append(conn)
    for job in jobs[1::2]:
        complete(api.conn, WORKER, [job])
        if held:
            conn = held.pop()
            conn.commit()
            conn.close()


def _queue_counts(listener: StreamListener) -> dict[str, int]:
    snapshots = listener.data_of("snapshot")
    if not snapshots:
        return {}
    [queue] = [queue for queue in snapshots[-1]["queues"] if queue["queue"] == "default"]
    return dict(queue["jobs"])


def _messages(listener: StreamListener) -> list[str]:
    return [data["data"]["message"] for data in listener.data_of("log")]


async def _allow() -> None:
    """Allow the subscription."""


async def _refuse() -> None:
    raise Unauthenticated
