"""Tickets: each begins one session of the dashboard, once and for a while.

A ticket stands for a key in a link, where a key must not stand. It is known to the server that made
it, and to no other: it is for a link that a program opens or prints on the server's own machine.
"""

import secrets
import time
from dataclasses import dataclass, field

from jobforge.security.api_keys import PlaintextApiKey

_PREFIX = "jfticket_"
_MAX_TICKETS = 100


@dataclass(slots=True)
class LoginTickets:
    _keys: dict[str, tuple[PlaintextApiKey, float]] = field(default_factory=dict)

    def create(self, key: PlaintextApiKey, lasts_s: float = 60.0) -> str:
        """A text for the link; the oldest gives way when there are too many."""
        while len(self._keys) >= _MAX_TICKETS:
            del self._keys[next(iter(self._keys))]
        ticket = _PREFIX + secrets.token_urlsafe(32)
        self._keys[ticket] = key, time.monotonic() + lasts_s
        return ticket

    def redeem(self, text: str) -> PlaintextApiKey | None:
        """The key that it stands for; a second time there is none."""
        key, until = self._keys.pop(text, (None, 0.0))
        return key if time.monotonic() < until else None
