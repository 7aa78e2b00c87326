"""JWTs of the host application: verified with pinned algorithms and mapped to a Principal.

Keys come from a shared secret, a PEM file, a JWKS file or a JWKS URL. A token's header only selects
one of the configured keys, never the type of key or the algorithm.
"""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import httpx2
import jwt
import orjson
from jwt.types import Options

from jobforge.api.auth.principal import Principal
from jobforge.config import Config
from jobforge.errors import ConfigError, Json, Unauthenticated, Unavailable
from jobforge.observability import logs
from jobforge.types.api_keys import Role

_LEEWAY_S = 30
_LONGEST_SUBJECT = 150
_FRESH_S = 600.0  # age at which a JWKS is read again
_MIN_REFRESH_S = 30.0  # minimum interval between reads caused by unknown key ids
_LARGEST_JWKS = 1024 * 1024


class JwtVerifier:
    """Verifies tokens by the configuration. `is_enabled`: whether JWTs are configured."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._keys = _configure_keys(config)
        self.is_enabled = bool(config.jwt_algorithms)

    async def verify(self, text: str) -> Principal:
        """Return the principal of a token; raise Unauthenticated."""
        if not self.is_enabled:
            raise Unauthenticated
        try:
            header = jwt.get_unverified_header(text)
            if header.get("alg") not in self._config.jwt_algorithms:
                raise Unauthenticated
            key = await self._keys.find(header.get("kid"))
            claims = jwt.decode(
                text,
                key,
                algorithms=list(self._config.jwt_algorithms),
                issuer=self._config.jwt_issuer,
                audience=self._config.jwt_audience,
                leeway=_LEEWAY_S,
                options=_options(self._config),
            )
            return self._principal(claims)
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise Unauthenticated from error

    def _principal(self, claims: dict[str, Json]) -> Principal:
        role_name = claims.get(self._config.jwt_role_claim)
        if not isinstance(role_name, str) or role_name not in self._config.jwt_roles:
            raise Unauthenticated
        role = Role(self._config.jwt_roles[role_name])
        tenant = claims.get(self._config.jwt_tenant_claim)
        if tenant is None and role not in {Role.SUPER_ADMIN, Role.WORKER}:
            raise Unauthenticated
        # Without a scope claim, the role alone decides; an empty claim allows nothing.
        scopes = claims.get("scope")
        if "scope" in claims and not isinstance(scopes, str):
            raise Unauthenticated
        return Principal(
            actor=f"jwt:{str(claims['sub'])[:_LONGEST_SUBJECT]}",
            role=role,
            tenant_id=None if tenant is None else UUID(str(tenant)),
            scopes=None if scopes is None else frozenset(scopes.split()),
        )


class FixedKey:
    """One key for all tokens."""

    def __init__(self, key: str) -> None:
        self._key = key

    async def find(self, _: str | None) -> str:
        return self._key


class KeySet:
    """Public keys of a JWKS by key id, read from a file or URL and cached."""

    def __init__(self, source: Path | str) -> None:
        self._source = source
        self._cached = _CachedKeys({}, read_at=-_FRESH_S)
        self._reading = asyncio.Lock()

    async def find(self, key_id: str | None) -> jwt.PyJWK:
        """Return the key with this id; raise Unauthenticated."""
        if self._cached.is_older_than(_FRESH_S) or (
            key_id not in self._cached.keys and self._cached.is_older_than(_MIN_REFRESH_S)
        ):
            await self._read()
        keys = self._cached.keys
        if key_id is None and len(keys) == 1:
            return next(iter(keys.values()))
        if key_id is None or key_id not in keys:
            raise Unauthenticated
        return keys[key_id]

    async def _read(self) -> None:
        previous = self._cached
        async with self._reading:
            if self._cached is not previous:
                return  # another request has just read them
            try:
                document = await _fetch_jwks(self._source)
                self._cached = _CachedKeys(_public_keys(document), time.monotonic())
            except (OSError, ValueError, TypeError, httpx2.HTTPError, jwt.PyJWTError) as error:
                logs.emit("jwks.unreadable", "error", error=logs.error_fields(error))
                if not previous.keys:
                    raise Unavailable("The keys for verifying tokens are unavailable") from error
                # The old keys stay valid while their source is unreachable.
                self._cached = _CachedKeys(previous.keys, time.monotonic())


@dataclass(frozen=True, slots=True)
class _CachedKeys:
    keys: dict[str | None, jwt.PyJWK]
    read_at: float

    def is_older_than(self, seconds: float) -> bool:
        return time.monotonic() - self.read_at > seconds


async def _fetch_jwks(source: Path | str) -> bytes:
    if isinstance(source, Path):
        return await asyncio.to_thread(source.read_bytes)
    async with httpx2.AsyncClient(timeout=5, trust_env=False) as client:
        response = await client.get(source)
        response.raise_for_status()
        if len(response.content) > _LARGEST_JWKS:
            raise ValueError("The JWKS is too large")
        return response.content


def _public_keys(document: bytes) -> dict[str | None, jwt.PyJWK]:
    # A symmetric key in a public JWKS is not secret, and encryption keys sign nothing.
    wanted = [
        jwk
        for jwk in orjson.loads(document)["keys"]
        if jwk.get("kty") in {"RSA", "EC", "OKP"} and jwk.get("use", "sig") == "sig"
    ]
    return {jwk.get("kid"): jwt.PyJWK(jwk) for jwk in wanted}


def _configure_keys(config: Config) -> FixedKey | KeySet:
    if not config.jwt_algorithms:
        return FixedKey("")
    sources = {
        "jwt_secret": config.jwt_secret,
        "jwt_public_key": config.jwt_public_key,
        "jwks_file": config.jwks_file,
        "jwks_url": config.jwks_url,
    }
    configured = [name for name, value in sources.items() if value is not None]
    if len(configured) != 1:
        raise ConfigError(
            f"jwt_algorithms requires exactly one of {', '.join(sources)};"
            f" {len(configured)} are set",
            field="jwt_algorithms",
        )
    is_shared = config.jwt_algorithms[0].startswith("HS")
    if is_shared != (configured == ["jwt_secret"]):
        raise ConfigError(
            f"{configured[0]} cannot be used with {config.jwt_algorithms[0]}",
            field="jwt_algorithms",
            hint="Use jwt_secret for HS algorithms, and a public key for all others",
        )
    return _key_source(config)


def _key_source(config: Config) -> FixedKey | KeySet:
    if config.jwt_secret is not None:
        return FixedKey(_check_secret_length(config.jwt_secret, config.jwt_algorithms))
    if config.jwt_public_key is None:
        return KeySet(config.jwks_file or str(config.jwks_url))
    try:
        return FixedKey(config.jwt_public_key.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"Cannot read jwt_public_key {config.jwt_public_key}",
            field="jwt_public_key",
        ) from error


def _check_secret_length(secret: str, algorithms: tuple[str, ...]) -> str:
    """Check that a secret is at least as long as the hash of its algorithm (RFC 7518)."""
    min_bytes = max(int(name.removeprefix("HS")) // 8 for name in algorithms)
    if len(secret.encode()) < min_bytes:
        raise ConfigError(
            f"jwt_secret must have at least {min_bytes} bytes for {max(algorithms)}",
            field="jwt_secret",
        )
    return secret


def _options(config: Config) -> Options:
    return {"require": ["exp", "sub"], "verify_aud": config.jwt_audience is not None}
