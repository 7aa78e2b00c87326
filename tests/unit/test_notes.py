"""What running jobs say, until it is sent."""

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from jobforge.job import Token
from jobforge.redact import MARKER, NO_SECRETS
from jobforge.worker.notes import Notes


def _job() -> Any:
    token = Token(uuid4(), uuid4(), 1)
    return SimpleNamespace(token=token, job_id=token.job_id, lease=token.lease)


def _said(notes: Notes) -> list[tuple[str, Any]]:
    return [(note.kind, note.data.get("n")) for note in asyncio.run(notes.take())]


def test_notes_come_in_the_order_in_which_they_were_said() -> None:
    notes, job = Notes(), _job()
    for number, kind in enumerate(["log", "progress", "event", "log"]):
        notes.add(job, kind, {"n": number}, NO_SECRETS)
    assert _said(notes) == [("log", 0), ("progress", 1), ("event", 2), ("log", 3)]
    assert _said(notes) == []


def test_of_a_jobs_progress_only_the_latest_is_kept() -> None:
    notes, job, other = Notes(), _job(), _job()
    for number in range(3):
        notes.add(job, "progress", {"n": number}, NO_SECRETS)
    notes.add(other, "progress", {"n": 10}, NO_SECRETS)
    assert _said(notes) == [("progress", 2), ("progress", 10)]


def test_progress_after_a_batch_does_not_touch_what_was_sent() -> None:
    notes, job = Notes(), _job()
    notes.add(job, "progress", {"n": 1}, NO_SECRETS)
    assert _said(notes) == [("progress", 1)]
    notes.add(job, "progress", {"n": 2}, NO_SECRETS)
    assert _said(notes) == [("progress", 2)]


def test_when_there_is_no_room_the_oldest_log_line_goes_first() -> None:
    notes, job = Notes(room=3), _job()
    notes.add(job, "event", {"n": 0}, NO_SECRETS)
    for number in range(1, 4):
        notes.add(job, "log", {"n": number}, NO_SECRETS)
    assert _said(notes) == [("event", 0), ("log", 2), ("log", 3)]


def test_without_log_lines_the_oldest_note_makes_room() -> None:
    notes, job = Notes(room=2), _job()
    for number in range(3):
        notes.add(job, "event", {"n": number}, NO_SECRETS)
    assert _said(notes) == [("event", 1), ("event", 2)]


def test_secrets_in_a_note_are_hidden() -> None:
    notes = Notes()
    notes.add(_job(), "log", {"password": "canary"}, NO_SECRETS)
    assert asyncio.run(notes.take())[0].data == {"password": MARKER}


def test_a_batch_is_bounded_by_weight_and_the_rest_comes_next() -> None:
    notes, job = Notes(), _job()
    for number in range(100):
        notes.add(job, "log", {"n": number, "fields": [{"text": "x" * 60_000}]}, NO_SECRETS)
    batches = [_said(notes) for _ in range(6)]
    assert max(map(len, batches)) < 20
    assert [said for batch in batches for said in batch] == [("log", each) for each in range(100)]


def test_one_heavy_note_is_a_batch_by_itself() -> None:
    notes, job = Notes(), _job()
    for number in range(2):
        notes.add(job, "event", {"n": number, "text": "x" * 5_000_000}, NO_SECRETS)
    assert [_said(notes), _said(notes)] == [[("event", 0)], [("event", 1)]]
