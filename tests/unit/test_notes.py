"""The buffer for notes of running jobs."""

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from jobforge.redact import MARKER, NO_SECRETS
from jobforge.types.jobs import Note, Token
from jobforge.worker.notes import NoteBuffer


def _job() -> Any:
    token = Token(uuid4(), uuid4(), 1)
    return SimpleNamespace(token=token, job_id=token.job_id, lease=token.lease)


def _taken(notes: NoteBuffer) -> list[Note]:
    return asyncio.run(notes.take())


def _said(notes: NoteBuffer) -> list[tuple[str, Any]]:
    return [(note.kind, note.data.get("n")) for note in _taken(notes)]


def test_notes_are_sent_in_the_order_in_which_they_were_added() -> None:
    notes, job = NoteBuffer(), _job()
    for number, kind in enumerate(["log", "progress", "event", "log"]):
        notes.add(job, kind, {"n": number}, NO_SECRETS)
    assert _said(notes) == [("log", 0), ("progress", 1), ("event", 2), ("log", 3)]
    assert _said(notes) == []


def test_of_a_jobs_progress_only_the_latest_is_kept() -> None:
    notes, job, other = NoteBuffer(), _job(), _job()
    for number in range(3):
        notes.add(job, "progress", {"n": number}, NO_SECRETS)
    notes.add(other, "progress", {"n": 10}, NO_SECRETS)
    assert _said(notes) == [("progress", 2), ("progress", 10)]


def test_progress_after_a_batch_does_not_change_the_sent_note() -> None:
    notes, job = NoteBuffer(), _job()
    notes.add(job, "progress", {"n": 1}, NO_SECRETS)
    assert _said(notes) == [("progress", 1)]
    notes.add(job, "progress", {"n": 2}, NO_SECRETS)
    assert _said(notes) == [("progress", 2)]


def test_a_full_buffer_drops_the_oldest_log_line_first() -> None:
    notes, job = NoteBuffer(max_job_notes=3), _job()
    notes.add(job, "event", {"n": 0}, NO_SECRETS)
    for number in range(1, 4):
        notes.add(job, "log", {"n": number}, NO_SECRETS)
    assert _said(notes) == [("log", None), ("event", 0), ("log", 2), ("log", 3)]


def test_a_full_buffer_without_log_lines_drops_the_oldest_note() -> None:
    notes, job = NoteBuffer(max_job_notes=2), _job()
    for number in range(3):
        notes.add(job, "event", {"n": number}, NO_SECRETS)
    assert _said(notes) == [("log", None), ("event", 1), ("event", 2)]


def test_the_number_of_dropped_lines_is_logged_once() -> None:
    notes, job = NoteBuffer(max_job_notes=2), _job()
    for number in range(1_002):
        notes.add(job, "log", {"n": number}, NO_SECRETS)
    reported = _taken(notes)[0]
    assert reported[:4] == (*job.token, "log")
    assert reported.data["message"].startswith("1,000 lines dropped")
    notes.add(job, "log", {"n": 0}, NO_SECRETS)
    assert _said(notes) == [("log", 0)]


def test_a_job_that_fills_the_buffer_loses_its_own_notes() -> None:
    notes, flooder, other = NoteBuffer(max_notes=100), _job(), _job()
    notes.add(other, "log", {"n": 0}, NO_SECRETS)
    for number in range(1_000):
        notes.add(flooder, "log", {"n": number}, NO_SECRETS)
    taken = _taken(notes)
    assert [note.data for note in taken if note.job_id == other.job_id] == [{"n": 0}]
    assert len(taken) == 101


def test_large_notes_are_bounded_by_size() -> None:
    notes, flooder, other = NoteBuffer(max_job_characters=1_000), _job(), _job()
    notes.add(other, "log", {"n": 0}, NO_SECRETS)
    for number in range(100):
        notes.add(flooder, "log", {"n": number, "text": "x" * 200}, NO_SECRETS)
    assert len(notes) < 10
    notes, heavy = NoteBuffer(max_characters=1_000), [_job() for _ in range(10)]
    for job in heavy:
        notes.add(job, "log", {"text": "x" * 400}, NO_SECRETS)
    assert len(notes) == 2


def test_jobs_take_turns_in_a_batch() -> None:
    notes, flooder, other = NoteBuffer(), _job(), _job()
    for number in range(300):
        notes.add(flooder, "log", {"n": number, "text": "x" * 10_000}, NO_SECRETS)
    notes.add(other, "log", {"n": 0}, NO_SECRETS)
    assert other.job_id in {note.job_id for note in _taken(notes)}


def test_the_buffer_knows_whether_notes_up_to_a_position_were_taken() -> None:
    notes, job, other = NoteBuffer(), _job(), _job()
    notes.add(job, "log", {"n": 1}, NO_SECRETS)
    last = notes.last
    assert notes.has_notes_until(last)
    _taken(notes)
    notes.add(other, "log", {"n": 2}, NO_SECRETS)
    assert not notes.has_notes_until(last)


def test_values_that_contain_themselves_have_a_size() -> None:
    endless: list[Any] = []
    endless.append(endless)
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    for value in (endless, deep):
        notes = NoteBuffer()
        notes.add(_job(), "log", {"value": value}, NO_SECRETS)
        assert len(notes) == 1


def test_secrets_in_a_note_are_hidden() -> None:
    notes = NoteBuffer()
    notes.add(_job(), "log", {"password": "canary"}, NO_SECRETS)
    assert _taken(notes)[0].data == {"password": MARKER}


def test_a_batch_is_bounded_by_size_and_the_rest_comes_next() -> None:
    notes, job = NoteBuffer(), _job()
    for number in range(100):
        notes.add(job, "log", {"n": number, "fields": [{"text": "x" * 60_000}]}, NO_SECRETS)
    batches = [_said(notes) for _ in range(6)]
    assert max(map(len, batches)) < 20
    assert [said for batch in batches for said in batch] == [("log", each) for each in range(100)]


def test_one_large_note_is_a_batch_by_itself() -> None:
    notes, job = NoteBuffer(), _job()
    for number in range(2):
        notes.add(job, "event", {"n": number, "text": "x" * 5_000_000}, NO_SECRETS)
    assert [_said(notes), _said(notes)] == [[("event", 0)], [("event", 1)]]
