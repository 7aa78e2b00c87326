"""Batches that are being created."""

import asyncio
from typing import Any

import pytest

from jobforge import JobForge
from jobforge.errors import Invalid


def test_too_many_jobs_in_one_call_are_refused_in_async_code_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jobforge.sdk.batch._MOST_AT_ONCE", 1)
    jf = JobForge(tenant="acme")

    @jf.job
    def work() -> None:
        return None

    with pytest.raises(Invalid, match="open=True"):
        jf.batch().add(work.args(), work.args())
    with pytest.raises(Invalid, match="open=True"):
        asyncio.run(jf.batch().aadd(work.args(), work.args()))


def test_a_definition_is_not_accepted_as_a_job() -> None:
    jf = JobForge(tenant="acme")

    @jf.job
    def work() -> None:
        return None

    wrong: Any = work
    with pytest.raises(Invalid, match=r"definition\.args"):
        jf.batch(on_success=wrong)
    with pytest.raises(Invalid, match=r"definition\.args"):
        jf.batch().add(wrong)
