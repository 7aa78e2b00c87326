"""Encoding and decoding of frames."""

import os
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobforge.errors import Invalid
from jobforge.sdk.definition_settings import ProcessLimits
from jobforge.worker.isolation.frames import (
    MAX_FRAME_BYTES,
    REQUEST_SIZE,
    ChildExit,
    ExceededLimit,
    FrameDecoder,
    FrameKind,
    InvalidFrame,
    Op,
    ZygoteRequest,
    encode_frame,
)

BODIES = st.lists(st.tuples(st.sampled_from(FrameKind), st.binary(max_size=50)), max_size=10)


@given(BODIES, st.integers(1, 20))
def test_frames_are_decoded_as_they_were_encoded_however_they_are_split(
    sent: list[tuple[FrameKind, bytes]], size: int
) -> None:
    stream = b"".join(encode_frame(kind, body) for kind, body in sent)
    frames = FrameDecoder()
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert [one for piece in pieces for one in frames.feed(piece)] == sent


def test_half_a_frame_is_not_returned() -> None:
    assert list(FrameDecoder().feed(encode_frame(FrameKind.NOTE, b"body")[:-1])) == []


@given(st.binary(min_size=5))
def test_invalid_data_never_raises_anything_else(data: bytes) -> None:
    try:
        list(FrameDecoder().feed(data))
    except InvalidFrame:
        return


@pytest.mark.parametrize("data", [b"\xff" * 5, b"\0\0\0\0\0", b"\0\0\0\0\xff"])
def test_an_invalid_length_or_kind_is_broken(data: bytes) -> None:
    with pytest.raises(InvalidFrame):
        list(FrameDecoder().feed(data))


def test_a_frame_that_is_too_long_is_refused_before_it_is_sent() -> None:
    with pytest.raises(Invalid):
        encode_frame(FrameKind.VERDICT, bytes(MAX_FRAME_BYTES + 1))


def test_a_request_is_decoded_as_it_was_encoded() -> None:
    limits = ProcessLimits(memory_bytes=2**40, cpu_s=7, open_files=64, file_size_bytes=None)
    request = ZygoteRequest.fork(2**40, limits, f"{uuid4()}.{2**62}")
    assert len(request.pack()) == REQUEST_SIZE
    assert ZygoteRequest.unpack(request.pack()) == request
    assert request.limits == limits


def test_a_signal_is_decoded_as_it_was_encoded() -> None:
    request = ZygoteRequest(Op.SIGNAL_GROUP, 3, 15)
    assert ZygoteRequest.unpack(request.pack()) == request


def test_an_end_is_decoded_as_it_was_encoded() -> None:
    ended = ChildExit(3, os.getpid(), 11, 2**40, 2**33, ExceededLimit.MEMORY)
    assert ChildExit.unpack(ended.pack()) == ended
