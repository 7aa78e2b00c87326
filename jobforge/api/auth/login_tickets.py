"""Login tickets: single-use, short-lived tokens that start a dashboard session.

A ticket replaces the API key in a link, where a key must not appear. Only the server that created a
ticket accepts it: tickets are for links that a program opens or prints on that server's machine.
"""

import secrets

from jobforge.security.api_keys import PlaintextApiKey
from jobforge.timing.ttl_cache import TtlCache

_PREFIX = "jfticket_"
_LASTS_S = 600.0
_MAX_TICKETS = 100


class LoginTickets:
    """Above the limit, the oldest tickets are dropped. Thread-safe."""

    def __init__(self, *, lasts_s: float = _LASTS_S) -> None:
        self._keys: TtlCache[str, PlaintextApiKey] = TtlCache(lasts_s, size=_MAX_TICKETS)

    def create(self, key: PlaintextApiKey) -> str:
        """Return a ticket for a link."""
        ticket = _PREFIX + secrets.token_urlsafe(32)
        self._keys.put(ticket, key)
        return ticket

    def redeem(self, text: str) -> PlaintextApiKey | None:
        """Return the ticket's key, or None if the ticket was used, has expired or is unknown."""
        return self._keys.pop(text)
