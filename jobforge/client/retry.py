"""Decides whether to send a failed request again, and when."""

import random

from jobforge.client.request import ApiRequest
from jobforge.errors import Contended, JobForgeError, TooManyRequests, Unavailable

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 30.0


class RetryPolicy:
    """Exponential backoff with jitter for one request."""

    def __init__(self, retries: int) -> None:
        self._retries = retries
        self._attempts = 0

    def next_pause_s(self, request: ApiRequest[object], error: JobForgeError) -> float | None:
        """Return how long to wait before the next attempt; None to give up."""
        if self._attempts >= self._retries or not _may_repeat(request, error):
            return None
        # Jitter: clients that were rejected together must not retry together.
        pause = _FIRST_PAUSE_S * 2**self._attempts * random.uniform(0.5, 1)  # noqa: S311 - jitter needs no secure random numbers
        self._attempts += 1
        retry_after_s = float(error.detail.get("retry_after_s", 0))
        return None if retry_after_s > _LONGEST_PAUSE_S else max(pause, retry_after_s)


def _may_repeat(request: ApiRequest[object], error: JobForgeError) -> bool:
    if isinstance(error, TooManyRequests | Contended):
        return True  # the server did not execute the request
    if not isinstance(error, Unavailable):
        return False
    return request.is_repeatable or error.detail.get("is_sent") is False
