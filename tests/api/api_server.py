"""A running API server with its own database, two tenants, and a key for each role."""

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
class TenantKeys:
    """A tenant with its API keys, by role as the API spells it."""

    tenant_id: UUID
    keys: dict[str, str]


@dataclass(slots=True)
class ApiServer:
    """`client("viewer")` uses a key of tenant A, `client("viewer", b)` a key of tenant B."""

    url: str
    database: Database
    conn: Connection
    a: TenantKeys
    b: TenantKeys
    super_key: str
    _open_clients: ExitStack = field(default_factory=ExitStack, repr=False)
    _clients_by_headers: dict[str, httpx2.Client] = field(default_factory=dict, repr=False)

    def client(self, role: str | None, tenant: TenantKeys | None = None) -> httpx2.Client:
        """Return a client with a key of this role; without a role, a client without credentials."""
        if role is None:
            return self.client_with_headers({})
        key = self.super_key if role == "super_admin" else (tenant or self.a).keys[role]
        return self.client_with_headers({"authorization": f"Bearer {key}"})

    def client_with_headers(self, headers: dict[str, str]) -> httpx2.Client:
        """Return one client for equal headers, because creating a client takes 30 ms."""
        name = str(headers)
        if name not in self._clients_by_headers:
            opened = httpx2.Client(base_url=self.url + API, headers=headers, trust_env=False)
            self._clients_by_headers[name] = self._open_clients.enter_context(opened)
        return self._clients_by_headers[name]

    def create_key(self, role: str, tenant_id: UUID | None, **options: Any) -> str:
        key = generate_api_key()
        created = calls.create_api_key(
            f"{role} of a test",
            Role(role),
            lookup=key.lookup,
            hash=key.hash,
            tenant_id=tenant_id,
            **options,
        )
        with db.connect(self.database.url) as conn:
            db.run(conn, created)
        return key.text


@contextmanager
def open_api_server(database: Database, **settings: Any) -> Iterator[ApiServer]:
    """Start a server; `settings` override its configuration."""
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
        url = stack.enter_context(serve_in_thread(config))
        opened = ApiServer(
            url, database, conn, TenantKeys(uuid4(), {}), TenantKeys(uuid4(), {}), ""
        )
        stack.enter_context(opened._open_clients)  # noqa: SLF001 - created in this module
        opened.super_key = opened.create_key("super_admin", None)
        for name, tenant in (("a", opened.a), ("b", opened.b)):
            conn.execute(
                "select jobforge.put_tenant(%s, jsonb_build_object('slug', %s::text))",
                [tenant.tenant_id, f"tenant-{name}"],
            )
            for role in ("viewer", "tenant_admin", "worker"):
                tenant.keys[role] = opened.create_key(role, tenant.tenant_id)
        yield opened


@contextmanager
def serve_in_thread(config: Config) -> Iterator[str]:
    """Run a server in a thread of this process until the end of the block."""
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
        assert not thread.is_alive(), "the server does not stop"


def _register(conn: Connection) -> None:
    conn.execute(
        "select jobforge.put_definition('mail', 1, %s)",
        [psycopg.types.json.Jsonb({"parameters": SCHEMA, "queue": "mail"})],
    )
    conn.execute("select jobforge.put_definition('plain', 1)")
