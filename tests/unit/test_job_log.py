"""Reading a job's notes: each of them once, whatever the order of their commits."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import httpx2
import orjson
import pytest

from jobforge.calls.job_log import JobLogReader
from jobforge.client.address import server_address
from jobforge.client.stream import JobLogState, StreamEvent, follow
from jobforge.client.transport import Transport
from jobforge.errors import Invalid, Json
from jobforge.types.job_history import JobEvent

JOB = UUID(int=1)
NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)


def note(seconds: float, text: str) -> JobEvent:
    return JobEvent(NOON + timedelta(seconds=seconds), "log", None, {"message": text})


def test_a_note_that_is_committed_late_is_returned_and_the_others_are_not_repeated() -> None:
    log = JobLogReader(JOB)
    assert log.take_new([note(0, "a"), note(3, "c")]) == [note(0, "a"), note(3, "c")]
    assert log.build_call().arguments["after"] == note(-2, "").at
    page = [note(0, "a"), note(1, "b"), note(3, "c")]
    assert log.take_new(page) == [note(1, "b")]
    assert log.take_new(page) == []


def test_the_next_read_starts_shortly_before_the_newest_note() -> None:
    log = JobLogReader(JOB, after=NOON)
    log.take_new([note(1, "a")])
    assert log.after == NOON
    log.take_new([note(60, "b")])
    assert log.after == NOON + timedelta(seconds=55)
    log.take_new([note(56, "late")])
    assert log.after == NOON + timedelta(seconds=55)


def test_a_full_page_is_followed_by_the_notes_after_it() -> None:
    log = JobLogReader(JOB)
    page = [note(n, str(n)) for n in range(1000)]
    assert log.take_new(page) == page
    assert [log.has_more] == [True]
    assert log.build_call().arguments["after"] == page[-1].at
    assert log.take_new([]) == []
    assert [log.has_more] == [False]
    assert log.after == page[-1].at - timedelta(seconds=5)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(Invalid) as refusal:
        JobLogReader(JOB, after=NOON.replace(tzinfo=None))
    assert refusal.value.field == "after"


def test_a_reconnected_log_stream_repeats_no_note() -> None:
    reading = JobLogState(JOB, None)
    assert reading.request_kwargs()["headers"] == {}
    one, two = (
        StreamEvent("log", {"at": each.at.isoformat(), "kind": "log", "data": each.data}, None)
        for each in (note(0, "one"), note(1, "two"))
    )
    assert reading.take_new(one) == [note(0, "one")]
    assert reading.take_new(StreamEvent("cut", {"reason": "server_stopping"}, None)) == []
    position = reading.request_kwargs()["headers"]["last-event-id"]
    assert datetime.fromisoformat(position) == NOON - timedelta(seconds=5)
    assert [*reading.take_new(one), *reading.take_new(two)] == [note(1, "two")]


def test_an_interrupted_log_stream_continues_after_reconnecting() -> None:
    first = sse("log", {"at": NOON, "kind": "log", "actor": None, "data": {"message": "one"}})
    rest = first + sse("end", {"at": NOON, "state": "dead"})
    answers = [first + sse("cut", {"reason": "server_stopping"}), "", rest]
    positions: list[str | None] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        positions.append(request.headers.get("last-event-id"))
        content = answers.pop(0)
        return httpx2.Response(200 if content else 503, content=content)

    transport = Transport(server_address("http://127.0.0.1:1", "jf_key"))
    transport.http.close()
    transport.http = httpx2.Client(
        base_url=transport.address.url, transport=httpx2.MockTransport(answer)
    )
    received = list(follow(transport, JobLogState(JOB, None)))
    assert received == [note(0, "one"), JobEvent(NOON, "end", None, {"state": "dead"})]
    resumed = (NOON - timedelta(seconds=5)).isoformat()
    assert positions == [None, resumed, resumed]
    transport.close()


def sse(name: str, data: Json) -> str:
    return f"event: {name}\ndata: {orjson.dumps(data).decode()}\n\n"
