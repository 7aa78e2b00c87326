"""Which registered secrets are hidden in which output.

What tenants see must not depend on the secrets of others: a tenant that can have its own text shown
could otherwise test guesses, or spoil the output of other tenants. So a job's output hides the
secrets that this job was given, and those that the app registered. The secrets of the installation
are hidden in logs alone, which tenants do not see. docs/decisions/0041 has the reasons.
"""

import threading
from contextvars import ContextVar

from jobforge.redact.registry import Registry, hide_forms

MARKER = "[redacted]"

# The values that `register_secret` was given outside of a job.
APP_SECRETS = Registry(max_values=1000)
# The installation's own: few, and never forgotten.
OPERATOR_SECRETS = Registry()
# What jobs were given by `ctx.secret`. A rotated secret has a new value each time.
JOB_SECRETS = Registry(max_values=1000)

_lock = threading.Lock()


class RedactionScope:
    """The registered secrets that are hidden in one kind of output.

    `payload` is that of the job. A value that is in it is shown: the caller knows it already, and
    hiding it would confirm a guess.
    """

    __slots__ = ("_own", "_payload", "_registries", "_shown_cache")

    def __init__(self, *registries: Registry, payload: str = "") -> None:
        self._registries = registries
        self._payload = payload
        self._own: Registry | None = None
        self._shown_cache: dict[str, bool] | None = None

    @property
    def own_values(self) -> Registry | None:
        """The values that were added to this scope."""
        return self._own

    def add(self, value: str) -> bool:
        """Hide this value too. Return False for one that is too short or an ordinary word."""
        with _lock:
            if self._own is None:
                self._own = Registry()
                self._registries = (*self._registries, self._own)
        return self._own.add(value)

    def hide(self, text: str) -> str:
        """The text with all occurrences of the values replaced."""
        if not any(self._registries):
            return text
        return hide_forms(text, self._registries, MARKER, is_shown=self._is_shown)

    def is_secret(self, text: str) -> bool:
        """Whether the whole text is one of the values."""
        return any(text in each for each in self._registries) and not self._is_shown(text)

    def strip_cut_value(self, text: str) -> str:
        """The text without the rest of a value whose beginning was cut off before it."""
        return text[max((each.cut_value_length(text) for each in self._registries), default=0) :]

    def _is_shown(self, value: str) -> bool:
        if not self._payload:
            return False
        if self._shown_cache is None:
            self._shown_cache = {}
        shown = self._shown_cache.get(value)
        if shown is None:
            mine = Registry()
            mine.add(value)
            shown = any(form.text in self._payload for form in mine.candidates(self._payload))
            self._shown_cache[value] = shown
        return shown


NO_SECRETS = RedactionScope()
_app = RedactionScope(APP_SECRETS)

CURRENT_SCOPE: ContextVar[RedactionScope | None] = ContextVar("jobforge_redaction", default=None)


def job_scope(payload: str) -> RedactionScope:
    """What is hidden in the output of a job of the app."""
    return RedactionScope(APP_SECRETS, payload=payload)


def connector_scope(payload: str) -> RedactionScope:
    """What is hidden in the output of a connector's job: its configuration's secrets alone.

    The text comes from servers that tenants choose, so it must not be compared with anything else.
    """
    return RedactionScope(payload=payload)


def current_scope() -> RedactionScope:
    """Of the job at hand; outside of a job, what the app has registered."""
    return CURRENT_SCOPE.get() or _app


def log_scope() -> RedactionScope:
    """What is hidden in logs and in messages to the operator."""
    job = CURRENT_SCOPE.get()
    own = () if job is None or job.own_values is None else (job.own_values,)
    return RedactionScope(OPERATOR_SECRETS, JOB_SECRETS, APP_SECRETS, *own)
