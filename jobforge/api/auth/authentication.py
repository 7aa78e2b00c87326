"""Authentication: by API key, by JWT of the host application, or by the dashboard's cookie.

Keys are cached for a second, so a busy client costs one query per second instead of one per
request. A key revoked through this server stops working at once; a key revoked through another
server, within that second.
"""

import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from uuid import UUID

from starlette.requests import Request

from jobforge import calls
from jobforge.api.auth.cookie import CookieSession, read_session, write_session
from jobforge.api.auth.jwt import JwtVerifier
from jobforge.api.auth.login_tickets import LoginTickets
from jobforge.api.auth.principal import Principal
from jobforge.config import Config
from jobforge.db import Database
from jobforge.errors import ForeignOrigin, JobForgeError, Unauthenticated
from jobforge.observability import logs
from jobforge.security.api_keys import PlaintextApiKey, parse_api_key
from jobforge.timing.ttl_cache import TtlCache
from jobforge.types.api_keys import FoundKey

COOKIE = "jobforge_session"
_REMEMBERED_S = 1.0
_TOUCH_INTERVAL_S = 60.0
_LONGEST_TOKEN = 8192
_SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
# Compared with the given key if no such key exists, so that both cases take the same time.
_DUMMY_HASH = secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class StartedSession:
    """A new session: the cookie's name, value and expiry, and its principal."""

    cookie: str
    value: str
    expires: int
    principal: Principal


@dataclass(frozen=True, slots=True)
class _CachedKey:
    """Cached result of a key lookup; `principal` is None if no live key was found."""

    hash: bytes
    principal: Principal | None


class Authentication:
    """Authenticates requests and manages dashboard sessions."""

    def __init__(self, config: Config, database: Database) -> None:
        self._config = config
        self._database = database
        self._jwt_verifier = JwtVerifier(config)
        self.tickets = LoginTickets()
        self._keys: TtlCache[str, _CachedKey] = TtlCache(_REMEMBERED_S)
        # By hash of the text of an accepted key, with the lookup of `_keys`, which may drop it.
        self._accepted: TtlCache[bytes, tuple[str, Principal]] = TtlCache(_REMEMBERED_S)
        self._live_sessions: TtlCache[bytes, bool] = TtlCache(_REMEMBERED_S)
        self._touched: TtlCache[UUID, bool] = TtlCache(_TOUCH_INTERVAL_S)

    async def authenticate(self, request: Request) -> Principal:
        """Return the principal; raise Unauthenticated or, for a cookie, ForeignOrigin."""
        headers = request.headers.getlist("authorization")
        if len(headers) > 1:
            raise Unauthenticated("The request has more than one Authorization header")
        if headers:
            return await self._from_header(headers[0])
        cookie = request.cookies.get(self.cookie_name(request))
        if cookie is None:
            raise Unauthenticated
        principal = await self._from_cookie(cookie)
        if request.method not in _SAFE_METHODS:
            self.check_origin(request)
        return principal

    async def begin_session(
        self, request: Request, *, key: str | None, ticket: str | None
    ) -> StartedSession:
        """Return a session cookie for the holder of a key or ticket; raise Unauthenticated."""
        found = self.tickets.redeem(ticket) if ticket is not None else parse_api_key(key or "")
        if found is None:
            raise Unauthenticated
        principal = await self._from_key(found)
        expires = int(time.time() + self._config.session_s)
        value = write_session(found.lookup, expires, found.hash, self._config.session_secret)
        return StartedSession(self.cookie_name(request), value, expires, principal)

    async def end_session(self, request: Request) -> None:
        """Sign out: every server refuses the request's cookie from now on."""
        session = read_session(request.cookies.get(self.cookie_name(request), ""))
        if session is None or not await self._is_valid_session(session):
            return  # the cookie is not valid
        ends_at = datetime.fromtimestamp(session.expires, UTC)
        await self._database.run(calls.end_session(session.id, ends_at))
        self._live_sessions.pop(session.id)

    def clear_cache(self) -> None:
        """Forget cached keys after a change."""
        self._keys.clear()

    def cookie_name(self, request: Request) -> str:
        return f"__Host-{COOKIE}" if self.is_secure(request) else COOKIE

    def is_secure(self, request: Request) -> bool:
        return self._own_origin(request).startswith("https:")

    def check_origin(self, request: Request) -> None:
        """Raise ForeignOrigin unless the request comes from the dashboard's own pages.

        Browsers send the cookie with requests from any page (CSRF).
        """
        origin = request.headers.get("origin")
        if origin is None:
            if request.headers.get("sec-fetch-site") == "same-origin":
                return
        elif origin.lower() == self._own_origin(request):
            return
        raise ForeignOrigin

    def check_origin_if_sent(self, request: Request) -> None:
        """Check the origin of a request that sets a cookie, if it has one: programs send none."""
        if "origin" in request.headers or "sec-fetch-site" in request.headers:
            self.check_origin(request)

    def _own_origin(self, request: Request) -> str:
        if self._config.public_url is not None:
            return self._config.public_url
        return f"{request.url.scheme}://{request.headers.get('host', '')}".lower()

    async def _from_header(self, header: str) -> Principal:
        scheme, _, text = header.partition(" ")
        if scheme.lower() != "bearer" or len(text) > _LONGEST_TOKEN:
            raise Unauthenticated
        text = text.strip()
        # Not the stored hash: OpenSSL's SHA-256 takes three times as long after a pause.
        token_hash = blake2b(text.encode(), digest_size=32).digest()
        accepted = self._accepted.get(token_hash)
        if accepted is not None and self._is_known(*accepted):
            return accepted[1]
        key = parse_api_key(text)
        if key is None:
            return await self._jwt_verifier.verify(text)
        principal = await self._from_key(key)
        self._accepted.put(token_hash, (key.lookup, principal))
        return principal

    def _is_known(self, lookup: str, principal: Principal) -> bool:
        """Whether the key has been looked up in the last second, with this result."""
        cached_key = self._keys.get(lookup)
        return cached_key is not None and cached_key.principal is principal

    async def _from_key(self, key: PlaintextApiKey) -> Principal:
        cached_key = await self._find_key(key.lookup)
        return await self._accept_key(cached_key, fits=key.matches_hash(cached_key.hash))

    async def _from_cookie(self, text: str) -> Principal:
        session = read_session(text)
        if session is None or not await self._is_valid_session(session):
            raise Unauthenticated
        principal = await self._accept_key(await self._find_key(session.lookup), fits=True)
        if await self._has_ended(session.id):
            raise Unauthenticated
        return principal

    async def _is_valid_session(self, session: CookieSession) -> bool:
        """Whether a server issued the session and it has not expired."""
        if session.expires < time.time():
            return False
        cached_key = await self._find_key(session.lookup)
        return session.has_valid_seal(cached_key.hash, self._config.session_secret)

    async def _has_ended(self, session_id: bytes) -> bool:
        if self._live_sessions.get(session_id):
            return False
        if await self._database.run(calls.is_session_ended(session_id)):
            return True
        self._live_sessions.put(session_id, value=True)
        return False

    async def _accept_key(self, cached_key: _CachedKey, *, fits: bool) -> Principal:
        if cached_key.principal is None or not fits:
            raise Unauthenticated
        await self._touch(cached_key.principal)
        return cached_key.principal

    async def _find_key(self, lookup: str) -> _CachedKey:
        cached_key = self._keys.get(lookup)
        if cached_key is not None:
            return cached_key
        found = await self._database.run(calls.find_api_key(lookup))
        return self._keys.put(lookup, _cached_key_from_row(lookup, found))

    async def _touch(self, principal: Principal) -> None:
        """Update the key's last use, about once a minute."""
        key_id = principal.key_id
        if key_id is None or self._touched.get(key_id):
            return
        self._touched.put(key_id, value=True)
        try:
            await self._database.run(calls.touch_api_key(key_id))
        except JobForgeError as error:  # must not fail the request
            logs.emit("key.untouched", "warning", error=logs.error_fields(error))


def _cached_key_from_row(lookup: str, found: FoundKey | None) -> _CachedKey:
    if found is None:
        return _CachedKey(_DUMMY_HASH, None)
    principal = Principal(
        actor=f"key:{lookup}",
        role=found.role,
        tenant_id=found.tenant_id,
        scopes=frozenset(found.scopes) or None,
        key_id=found.id,
        expires_at=found.expires_at,
    )
    return _CachedKey(found.hash, principal if found.is_live else None)
