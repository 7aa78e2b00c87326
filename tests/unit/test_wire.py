"""Frames, as they are cut and put together again."""

import os
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobforge.errors import Invalid
from jobforge.sdk.settings import Limits
from jobforge.worker.isolation.frames import (
    LONGEST_FRAME,
    REQUEST_SIZE,
    BrokenWire,
    Ended,
    Frames,
    Kind,
    Op,
    Over,
    Request,
    frame,
)

BODIES = st.lists(st.tuples(st.sampled_from(Kind), st.binary(max_size=50)), max_size=10)


@given(BODIES, st.integers(1, 20))
def test_frames_come_out_as_they_went_in_however_they_are_cut(
    sent: list[tuple[Kind, bytes]], size: int
) -> None:
    stream = b"".join(frame(kind, body) for kind, body in sent)
    frames = Frames()
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert [one for piece in pieces for one in frames.feed(piece)] == sent


def test_half_a_frame_is_none() -> None:
    assert list(Frames().feed(frame(Kind.NOTE, b"body")[:-1])) == []


@given(st.binary(min_size=5))
def test_what_is_no_frame_never_raises_anything_else(data: bytes) -> None:
    try:
        list(Frames().feed(data))
    except BrokenWire:
        return


@pytest.mark.parametrize("data", [b"\xff" * 5, b"\0\0\0\0\0", b"\0\0\0\0\xff"])
def test_a_length_or_a_kind_that_cannot_be_is_broken(data: bytes) -> None:
    with pytest.raises(BrokenWire):
        list(Frames().feed(data))


def test_a_frame_that_is_too_long_is_refused_before_it_is_sent() -> None:
    with pytest.raises(Invalid):
        frame(Kind.VERDICT, bytes(LONGEST_FRAME + 1))


def test_a_request_comes_out_as_it_went_in() -> None:
    limits = Limits(memory_bytes=2**40, cpu_s=7, open_files=64, file_size_bytes=None)
    request = Request.fork(2**40, limits, f"{uuid4()}.{2**62}")
    assert len(request.pack()) == REQUEST_SIZE
    assert Request.unpack(request.pack()) == request
    assert request.limits == limits


def test_a_signal_comes_out_as_it_went_in() -> None:
    request = Request(Op.SIGNAL_GROUP, 3, 15)
    assert Request.unpack(request.pack()) == request


def test_an_end_comes_out_as_it_went_in() -> None:
    ended = Ended(3, os.getpid(), 11, 2**40, 2**33, Over.MEMORY)
    assert Ended.unpack(ended.pack()) == ended
