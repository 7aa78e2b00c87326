"""Whether a request that was not answered well is sent again, and when."""

import random

from jobforge.client.request import ApiRequest
from jobforge.errors import Contended, JobForgeError, TooManyRequests, Unavailable

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 30.0


class RetryPolicy:
    """Of one request."""

    def __init__(self, retries: int) -> None:
        self._retries = retries
        self._attempts = 0

    def next_pause_s(self, request: ApiRequest[object], error: JobForgeError) -> float | None:
        """How long to wait before the next try; None when there is none."""
        if self._attempts >= self._retries or not _may_repeat(request, error):
            return None
        # Many who were refused at once should not come back at once.
        pause = _FIRST_PAUSE_S * 2**self._attempts * random.uniform(0.5, 1)  # noqa: S311 - no secret
        self._attempts += 1
        asked = float(error.detail.get("retry_after_s", 0))
        return None if asked > _LONGEST_PAUSE_S else max(pause, asked)


def _may_repeat(request: ApiRequest[object], error: JobForgeError) -> bool:
    if isinstance(error, TooManyRequests | Contended):
        return True  # nothing was done
    if not isinstance(error, Unavailable):
        return False
    return request.is_repeatable or error.detail.get("is_sent") is False
