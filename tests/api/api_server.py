"""A running server over a database of its own, two tenants in it, and a key for every role."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import httpx2
import psycopg
import uvicorn
from cluster import Connection, Database, connect_to, wait_until

from jobforge import calls, db
from jobforge.api import create_app
from jobforge.api.serve import bind_socket, url_from_socket, uvicorn_config
from jobforge.config import Config
from jobforge.security.api_keys import generate_api_key
from jobforge.types.api_keys import Role

API = "/api/v1"
SECRET_KEY = "seals what tenants of the house keep secret"
SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "n": {"type": "integer"}, "password": {}},
    "required": ["to"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Party:
    """A tenant, and the keys of its people; by role, as the API spells them."""

    tenant_id: UUID
    keys: dict[str, str]


@dataclass(slots=True)
class House:
    """`client("viewer")` speaks for tenant A, `client("viewer", b)` for B."""

    url: str
    database: Database
    conn: Connection
    a: Party
    b: Party
    super_key: str
    _clients: ExitStack = field(default_factory=ExitStack, repr=False)
    _opened: dict[str, httpx2.Client] = field(default_factory=dict, repr=False)

    def client(self, role: str | None, party: Party | None = None) -> httpx2.Client:
        """Without a role, one that says nothing about itself."""
        if role is None:
            return self.bare({})
        key = self.super_key if role == "super_admin" else (party or self.a).keys[role]
        return self.bare({"authorization": f"Bearer {key}"})

    def bare(self, headers: dict[str, str]) -> httpx2.Client:
        """To make one takes 30 ms, so those of the same headers are one."""
        name = str(headers)
        if name not in self._opened:
            opened = httpx2.Client(base_url=self.url + API, headers=headers, trust_env=False)
            self._opened[name] = self._clients.enter_context(opened)
        return self._opened[name]

    def make_key(self, role: str, tenant_id: UUID | None, **options: Any) -> str:
        key = generate_api_key()
        made = calls.create_api_key(
            f"{role} of a test",
            Role(role),
            lookup=key.lookup,
            hash=key.hash,
            tenant_id=tenant_id,
            **options,
        )
        with db.connect(self.database.url) as conn:
            db.run(conn, made)
        return key.text


@contextmanager
def house(database: Database, **settings: Any) -> Iterator[House]:
    """Starts a server; `settings` are those of its configuration."""
    config = Config(
        **{
            "database_url": database.url_as("server_login"),
            "request_rate": 0,
            "tenant_request_rate": 0,
            "access_log": False,
            "secret_key": SECRET_KEY,
            **settings,
        }
    )
    with ExitStack() as stack:
        conn = stack.enter_context(connect_to(database.url))
        _register(conn)
        url = stack.enter_context(served(config))
        opened = House(url, database, conn, Party(uuid4(), {}), Party(uuid4(), {}), "")
        stack.enter_context(opened._clients)  # noqa: SLF001 - its own maker
        opened.super_key = opened.make_key("super_admin", None)
        for name, party in (("a", opened.a), ("b", opened.b)):
            conn.execute(
                "select jobforge.put_tenant(%s, jsonb_build_object('slug', %s::text))",
                [party.tenant_id, f"tenant-{name}"],
            )
            for role in ("viewer", "tenant_admin", "worker"):
                party.keys[role] = opened.make_key(role, party.tenant_id)
        yield opened


@contextmanager
def served(config: Config) -> Iterator[str]:
    """A server in a thread of this process, until the end."""
    bound = bind_socket("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn_config(create_app(config), config))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        assert server.started, "the server did not start"
        yield url_from_socket(bound)
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        assert not thread.is_alive(), "the server does not end"


def _register(conn: Connection) -> None:
    conn.execute(
        "select jobforge.put_definition('mail', 1, %s)",
        [psycopg.types.json.Jsonb({"parameters": SCHEMA, "queue": "mail"})],
    )
    conn.execute("select jobforge.put_definition('plain', 1)")
