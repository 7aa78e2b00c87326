"""Which registered secrets are hidden in which output.

What a tenant sees must not depend on secrets of others: otherwise a tenant whose own text is
displayed could test guesses, or garble the output of other tenants. So a job's output hides only
the secrets that the job received and those that the app registered. The installation's secrets are
hidden in logs only, which tenants do not see. docs/decisions/0041 has the reasons.
"""

import threading
from contextvars import ContextVar

from jobforge.redact.registry import Registry, hide_forms

MARKER = "[redacted]"

# Values passed to `register_secret` outside a job.
APP_SECRETS = Registry(max_values=1000)
# The installation's secrets: few, and kept permanently.
OPERATOR_SECRETS = Registry()
# Values that jobs received from `ctx.secret`. A rotated secret has a new value each time.
JOB_SECRETS = Registry(max_values=1000)

_lock = threading.Lock()


class RedactionScope:
    """The registered secrets that are hidden in one kind of output.

    `payload` is the job's. A value in the payload is not hidden: the caller already knows it, and
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
        """The values added to this scope."""
        return self._own

    def add(self, value: str) -> bool:
        """Hide this value too; return False if it is too short or an ordinary word."""
        with _lock:
            if self._own is None:
                self._own = Registry()
                self._registries = (*self._registries, self._own)
        return self._own.add(value)

    def hide(self, text: str) -> str:
        """Return the text with all occurrences of the values replaced."""
        if not any(self._registries):
            return text
        return hide_forms(text, self._registries, MARKER, is_shown=self._is_shown)

    def is_secret(self, text: str) -> bool:
        """Return whether the whole text is one of the values."""
        return any(text in each for each in self._registries) and not self._is_shown(text)

    def strip_cut_value(self, text: str) -> str:
        """Return the text without the rest of a value whose start was cut off."""
        return text[max((each.cut_value_length(text) for each in self._registries), default=0) :]

    def _is_shown(self, value: str) -> bool:
        if not self._payload:
            return False
        if self._shown_cache is None:
            self._shown_cache = {}
        shown = self._shown_cache.get(value)
        if shown is None:
            registry = Registry()
            registry.add(value)
            shown = any(form.text in self._payload for form in registry.candidates(self._payload))
            self._shown_cache[value] = shown
        return shown


NO_SECRETS = RedactionScope()
_app = RedactionScope(APP_SECRETS)

CURRENT_SCOPE: ContextVar[RedactionScope | None] = ContextVar("jobforge_redaction", default=None)


def job_scope(payload: str) -> RedactionScope:
    """Return the scope for the output of an app's job."""
    return RedactionScope(APP_SECRETS, payload=payload)


def connector_scope(payload: str) -> RedactionScope:
    """Return the scope for the output of a connector's job: its configuration's secrets only.

    Tenants choose the servers that the text comes from, so it must not be compared with others.
    """
    return RedactionScope(payload=payload)


def current_scope() -> RedactionScope:
    """Return the current job's scope or, outside a job, the app's."""
    return CURRENT_SCOPE.get() or _app


def log_scope() -> RedactionScope:
    """Return the scope for logs and messages to operators."""
    job = CURRENT_SCOPE.get()
    own = () if job is None or job.own_values is None else (job.own_values,)
    return RedactionScope(OPERATOR_SECRETS, JOB_SECRETS, APP_SECRETS, *own)
