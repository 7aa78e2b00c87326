"""Middleware: what an app accepts, and the order of the calls."""

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from jobforge import CallNext, Context, JobForge
from jobforge.errors import Invalid
from jobforge.sdk.definition import Definition
from jobforge.testing.attempt import AttemptChannel


def _make_context(definition: Definition[..., Any]) -> Context:
    # No test of this module sends anything over the channel.
    channel: AttemptChannel = object.__new__(AttemptChannel)
    return Context(definition.fake_claimed_job({}, uuid4()), channel)


def test_the_first_registered_middleware_is_the_outermost() -> None:
    jf = JobForge()
    calls: list[str] = []

    @jf.middleware
    def outer(_: Context, call_next: CallNext) -> object:
        calls.append("outer")
        return call_next()

    @jf.job
    def work(number: int) -> int:
        calls.append("handler")
        return number

    @jf.middleware
    def inner(ctx: Context, call_next: CallNext) -> str:
        calls.append(f"inner of {ctx.definition}")
        return f"{call_next()}!"

    assert work.invoke(_make_context(work), {"number": 7}) == "7!"  # type: ignore[comparison-overlap] # inner changes the type
    assert calls == ["outer", "inner of work", "handler"]


def test_async_middleware_awaits_the_handler() -> None:
    jf = JobForge()
    calls: list[str] = []

    @jf.middleware
    async def wrap(_: Context, call_next: CallNext) -> object:
        try:
            return await call_next()
        finally:
            calls.append("after")

    @jf.job
    async def work(ctx: Context) -> str:
        await asyncio.sleep(0)
        calls.append("handler")
        return ctx.definition

    async def run() -> object:
        returned = work.invoke(_make_context(work), {})
        assert not isinstance(returned, str)
        return await returned

    assert asyncio.run(run()) == "work"
    assert calls == ["handler", "after"]


def test_a_direct_call_of_the_function_bypasses_middleware() -> None:
    jf = JobForge()

    @jf.middleware
    def refuse(_: Context, call_next: CallNext) -> object:
        raise AssertionError(call_next)

    @jf.job
    def work() -> int:
        return 1

    assert work() == 1


def test_a_middleware_of_the_other_kind_is_rejected_whichever_is_declared_first() -> None:
    jf = JobForge()

    @jf.job
    async def work() -> None: ...

    with pytest.raises(Invalid, match="wrap is sync, but the handler of work is async") as caught:

        @jf.middleware
        def wrap(_: Context, call_next: CallNext) -> object:
            return call_next()

    assert 'handlers="sync"' in (caught.value.hint or "")

    @jf.middleware
    async def wrap_async(_: Context, call_next: CallNext) -> object:
        return await call_next()

    with pytest.raises(Invalid, match="wrap_async is async, but the handler of sum_up is sync"):

        @jf.job
        def sum_up() -> None: ...

    assert list(jf.definitions) == ["work"]


def test_a_rejected_middleware_wraps_nothing() -> None:
    jf = JobForge()

    @jf.job
    def plain() -> int:
        return 1

    @jf.job
    async def work() -> None: ...

    with pytest.raises(Invalid):

        @jf.middleware
        def wrap(_: Context, call_next: CallNext) -> object:
            raise AssertionError(call_next)

    assert plain.invoke(_make_context(plain), {}) == 1


def test_a_restricted_middleware_wraps_only_handlers_of_its_kind() -> None:
    jf = JobForge()

    @jf.middleware(handlers="sync")
    def wrap(_: Context, call_next: CallNext) -> object:
        return call_next() + 1

    @jf.job
    def plain() -> int:
        return 1

    @jf.job
    async def work() -> int:
        return 1

    assert plain.invoke(_make_context(plain), {}) == 2
    returned = work.invoke(_make_context(work), {})
    assert not isinstance(returned, int)

    async def finish() -> int:
        return await returned

    assert asyncio.run(finish()) == 1


def test_middleware_must_be_a_function_of_the_kind_that_it_names() -> None:
    jf = JobForge()

    def generator(_: Context, call_next: CallNext) -> Iterator[object]:
        yield call_next()

    def plain(_: Context, call_next: CallNext) -> object:
        return call_next()

    with pytest.raises(Invalid, match="generator"):
        jf.middleware(generator)
    with pytest.raises(Invalid, match="is sync and cannot wrap async handlers"):
        jf.middleware(handlers="async")(plain)
    with pytest.raises(Invalid, match="must be a function"):
        jf.middleware(print)


def test_commands_are_not_wrapped() -> None:
    jf = JobForge()
    jf.command("say", argv=["echo"])

    @jf.middleware
    async def wrap(_: Context, call_next: CallNext) -> object:
        return await call_next()

    assert not jf.definitions["say"].needs_context


def test_a_definition_needs_the_context_only_if_something_takes_it() -> None:
    jf = JobForge()

    @jf.job
    def work() -> None: ...

    assert not work.needs_context
    jf.on_start(lambda _: None)
    assert work.needs_context


def test_hooks_of_a_process_must_be_sync() -> None:
    jf = JobForge()

    async def connect() -> None: ...

    for register in (jf.on_zygote_start, jf.on_process_start, jf.on_process_stop):
        with pytest.raises(Invalid, match="connect is async") as caught:
            register(connect)
        assert "middleware" in (caught.value.hint or "")
