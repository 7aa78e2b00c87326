"""Login tickets: single-use, short-lived tokens that start a dashboard session.

A ticket replaces the API key in a link, where a key must not appear. Only the server that created a
ticket accepts it: tickets are for links that a program opens or prints on that server's machine.
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
        """Return a ticket for a link; above the limit, the oldest tickets are dropped."""
        while len(self._keys) >= _MAX_TICKETS:
            del self._keys[next(iter(self._keys))]
        ticket = _PREFIX + secrets.token_urlsafe(32)
        self._keys[ticket] = key, time.monotonic() + lasts_s
        return ticket

    def redeem(self, text: str) -> PlaintextApiKey | None:
        """Return the ticket's key, or None if the ticket was used, has expired or is unknown."""
        key, until = self._keys.pop(text, (None, 0.0))
        return key if time.monotonic() < until else None
