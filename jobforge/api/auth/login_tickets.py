"""Tickets: each begins one session of the dashboard, once and for a while.

A ticket stands for a key in a link, where a key must not stand. It is known to the server that made
it, and to no other: it is for a link that a program opens or prints on the server's own machine.
"""

import secrets
import time
from dataclasses import dataclass, field

from jobforge.security.api_keys import KeyText

_PREFIX = "jfticket_"
_MOST = 100


@dataclass(slots=True)
class Tickets:
    _keys: dict[str, tuple[KeyText, float]] = field(default_factory=dict)

    def make(self, key: KeyText, lasts_s: float = 60.0) -> str:
        """A text for the link; the oldest gives way when there are too many."""
        while len(self._keys) >= _MOST:
            del self._keys[next(iter(self._keys))]
        ticket = _PREFIX + secrets.token_urlsafe(32)
        self._keys[ticket] = key, time.monotonic() + lasts_s
        return ticket

    def take(self, text: str) -> KeyText | None:
        """The key that it stands for; a second time there is none."""
        key, until = self._keys.pop(text, (None, 0.0))
        return key if time.monotonic() < until else None
