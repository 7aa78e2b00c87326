"""JWTs of the host application: only tokens that are signed as configured are accepted."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import jwt
import pytest
from attacks import Attempts
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from jobforge.api.auth.jwt import JwtVerifier
from jobforge.api.auth.permissions import PREFIX, RULES
from jobforge.api.guard import check_rights
from jobforge.config import Config, load
from jobforge.errors import ConfigError, OutOfScope, Unauthenticated
from jobforge.types.api_keys import Role

SECRET = "s" * 64
TENANT = str(uuid4())
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
PUBLIC_PEM = RSA.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _claims(**changes: Any) -> dict[str, Any]:
    claims = {"sub": "ada", "tenant_id": TENANT, "role": "viewer", "exp": time.time() + 60}
    return {name: value for name, value in {**claims, **changes}.items() if value is not None}


def _part(value: dict[str, Any]) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")


def _handmade(header: dict[str, Any], claims: dict[str, Any], key: bytes | None) -> str:
    """Return a token that no library would create."""
    signed = _part(header) + b"." + _part(claims)
    seal = b"" if key is None else hmac.new(key, signed, hashlib.sha256).digest()
    return (signed + b"." + base64.urlsafe_b64encode(seal).rstrip(b"=")).decode()


def _tokens_with_secret(**changes: Any) -> Config:
    return Config(**{"jwt_algorithms": ("HS256",), "jwt_secret": SECRET, **changes})


async def _is_refused(tokens: JwtVerifier, token: str) -> bool:
    with pytest.raises(Unauthenticated):
        await tokens.verify(token)
    return True


@pytest.mark.anyio
async def test_a_token_names_user_tenant_and_role() -> None:
    tokens = JwtVerifier(_tokens_with_secret())
    scoped = jwt.encode(_claims(scope="jobs:read queues:read"), SECRET, "HS256")
    principal = await tokens.verify(scoped)
    assert (principal.actor, principal.role) == ("jwt:ada", Role.VIEWER)
    assert str(principal.tenant_id) == TENANT
    assert principal.scopes == frozenset({"jobs:read", "queues:read"})

    named = JwtVerifier(
        _tokens_with_secret(
            jwt_tenant_claim="org", jwt_role_claim="kind", jwt_roles={"boss": "super_admin"}
        )
    )
    boss = await named.verify(jwt.encode({**_claims(), "kind": "boss"}, SECRET, "HS256"))
    assert (boss.role, boss.tenant_id) == (Role.SUPER_ADMIN, None)


@pytest.mark.anyio
@pytest.mark.attack("sessions")
async def test_an_empty_scope_allows_nothing(attempts: Attempts) -> None:
    tokens = JwtVerifier(_tokens_with_secret())
    rule = RULES["GET", f"{PREFIX}/jobs"]
    check_rights(rule, await tokens.verify(jwt.encode(_claims(), SECRET, "HS256")))
    for scope in ("", " ", "profile email", "jobs:write"):
        principal = await tokens.verify(jwt.encode(_claims(scope=scope), SECRET, "HS256"))
        with pytest.raises(OutOfScope):
            check_rights(rule, principal)
    for unclear in (["jobs:read"], 1, True):
        assert await _is_refused(tokens, jwt.encode(_claims(scope=unclear), SECRET, "HS256"))
    assert await _is_refused(tokens, jwt.encode({**_claims(), "scope": None}, SECRET, "HS256"))
    attempts(8)


@pytest.mark.attack("tokens")
@pytest.mark.anyio
async def test_invalid_tokens_are_refused(tmp_path: Path, attempts: Attempts) -> None:
    tokens = JwtVerifier(_tokens_with_secret(jwt_issuer="me", jwt_audience="jobs"))

    def created(**changes: Any) -> str:
        return jwt.encode(_claims(iss="me", aud="jobs", **changes), SECRET, "HS256")

    assert (await tokens.verify(created())).actor == "jwt:ada"
    good = _claims(iss="me", aud="jobs")
    header = {"alg": "HS256", "typ": "JWT"}
    refused = {
        "expired": created(exp=time.time() - 120),
        "without an end": created(exp=None),
        "without a subject": created(sub=None),
        "not yet": created(nbf=time.time() + 600),
        "another's issue": jwt.encode(_claims(iss="you", aud="jobs"), SECRET, "HS256"),
        "for others": jwt.encode(_claims(iss="me", aud="mail"), SECRET, "HS256"),
        "for nobody": jwt.encode(_claims(iss="me"), SECRET, "HS256"),
        "of no known role": created(role="god"),
        "of a role that is not given out": created(role="super_admin"),
        "of a role that is a list": created(role=["viewer"]),
        "of no tenant": created(tenant_id=None),
        "of a tenant that is none": created(tenant_id="acme"),
        "of another secret": jwt.encode(good, "t" * 32, "HS256"),
        "of another algorithm": jwt.encode(good, SECRET, "HS512"),
        "unsigned": _handmade({"alg": "none"}, good, None),
        "unsigned, shouting": _handmade({"alg": "NONE"}, good, None),
        "signed with nothing": _handmade(header, good, None),
        "signed with an empty secret": _handmade(header, good, b""),
        "with a key of its own": _handmade(
            {**header, "jwk": {"kty": "oct", "k": "AAAA"}}, good, b"\0\0\0"
        ),
        "with a path for a key": _handmade({**header, "kid": "../../dev/null"}, good, b""),
        "no token": "a.b.c",
        "empty": "",
    }
    attempts(len(refused) + 4)
    for about, token in refused.items():
        assert await _is_refused(tokens, token), about
    assert await _is_refused(JwtVerifier(Config()), created()), "where tokens are not configured"

    pem = tmp_path / "key.pem"
    pem.write_bytes(PUBLIC_PEM)
    signed = JwtVerifier(Config(jwt_algorithms=("RS256",), jwt_public_key=pem))
    assert (await signed.verify(jwt.encode(_claims(), RSA, "RS256"))).actor == "jwt:ada"
    assert await _is_refused(signed, jwt.encode(_claims(), OTHER_RSA, "RS256"))
    # The public key is not secret; used as a shared secret, it could sign anything.
    for header in ({"alg": "HS256"}, {"alg": "RS256"}):
        assert await _is_refused(signed, _handmade(header, _claims(), PUBLIC_PEM))


def _jwks(**keys: Any) -> str:
    makers = {"rsa": RSAAlgorithm, "ec": ECAlgorithm, "ed": OKPAlgorithm}
    listed = []
    for name, key in keys.items():
        maker: Any = makers[name.split("_")[0]]
        document: dict[str, Any] = maker.to_jwk(key.public_key(), as_dict=True)
        listed.append({**document, "kid": name, "use": "sig"})
    shared = {"kty": "oct", "k": base64.urlsafe_b64encode(SECRET.encode()).decode(), "kid": "oct"}
    return json.dumps({"keys": [*listed, shared]})


@pytest.mark.anyio
async def test_keys_of_a_key_set_are_found_by_id(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(_jwks(rsa=RSA, ec=EC, ed=ED))
    tokens = JwtVerifier(Config(jwt_algorithms=("RS256", "ES256", "EdDSA"), jwks_file=file))
    signers: dict[str, tuple[Any, str]] = {
        "rsa": (RSA, "RS256"),
        "ec": (EC, "ES256"),
        "ed": (ED, "EdDSA"),
    }
    for name, (key, algorithm) in signers.items():
        token = jwt.encode(_claims(), key, algorithm, headers={"kid": name})
        assert (await tokens.verify(token)).actor == "jwt:ada"
    mixed = jwt.encode(_claims(), OTHER_RSA, "RS256", headers={"kid": "rsa"})
    assert await _is_refused(tokens, mixed)
    for header in ({"alg": "ES256", "kid": "rsa"}, {"alg": "HS256", "kid": "oct"}):
        assert await _is_refused(tokens, _handmade(header, _claims(), SECRET.encode()))
    assert await _is_refused(tokens, jwt.encode(_claims(), RSA, "RS256", headers={"kid": "?"}))


@contextmanager
def _serve_key_set(document: Callable[[], str]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = document().encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/jwks.json"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.anyio
async def test_a_key_that_its_source_has_added_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobforge.api.auth.jwt._MIN_REFRESH_S", 0.0)
    published = [_jwks(rsa=RSA)]
    with _serve_key_set(lambda: published[-1]) as url:
        tokens = JwtVerifier(Config(jwt_algorithms=("RS256",), jwks_url=url))
        old = jwt.encode(_claims(), RSA, "RS256", headers={"kid": "rsa"})
        new = jwt.encode(_claims(), OTHER_RSA, "RS256", headers={"kid": "rsa_2"})
        assert (await tokens.verify(old)).actor == "jwt:ada"
        assert await _is_refused(tokens, new)
        published.append(_jwks(rsa_2=OTHER_RSA))
        assert (await tokens.verify(new)).actor == "jwt:ada"
        assert await _is_refused(tokens, old)
        published.append("not JSON")
        assert await _is_refused(tokens, old)
        assert (await tokens.verify(new)).actor == "jwt:ada", "the old keys hold meanwhile"


@pytest.mark.parametrize(
    "settings",
    [
        {"jwt_algorithms": ["HS256", "RS256"], "jwt_secret": SECRET},
        {"jwt_algorithms": ["none"], "jwt_secret": SECRET},
        {"jwt_secret": "short"},
        {"jwt_roles": ["boss:god"]},
    ],
)
def test_unsafe_settings_are_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        load(flags=settings, environ={}, folder=tmp_path)


@pytest.mark.parametrize(
    "config",
    [
        Config(jwt_algorithms=("HS256",)),
        Config(jwt_algorithms=("HS256", "HS512"), jwt_secret="s" * 32),
        Config(jwt_algorithms=("RS256",), jwt_secret=SECRET),
        Config(jwt_algorithms=("HS256",), jwks_url="http://127.0.0.1:1/"),
        Config(jwt_algorithms=("HS256",), jwt_secret=SECRET, jwks_url="http://127.0.0.1:1/"),
    ],
)
def test_an_algorithm_needs_its_kind_of_key(config: Config) -> None:
    with pytest.raises(ConfigError):
        JwtVerifier(config)
