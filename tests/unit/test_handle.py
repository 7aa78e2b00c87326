"""Waiting for a job to finish."""

from datetime import timedelta
from uuid import UUID

import pytest

from jobforge.errors import WaitTimeout
from jobforge.sdk.duration import Duration
from jobforge.sdk.handle import WaitTarget, poll_until


@pytest.mark.parametrize("timeout", [0.001, timedelta(milliseconds=1)])
def test_the_timeout_error_of_a_wait_names_the_seconds(timeout: Duration) -> None:
    job = WaitTarget("job", UUID(int=1), "job_id")
    with pytest.raises(WaitTimeout, match=r"^Job \S+ did not finish within 0\.001 s$"):
        poll_until(lambda: None, lambda _: False, timeout, job)
