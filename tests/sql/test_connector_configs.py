"""Configurations of connectors and the keys of tenants, as the engine stores them."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from attacks import Attempts
from cluster import Connect, Connection
from sql.engine import TENANT_A, TENANT_B, as_tenant, call, call_for_value, refused

SEALED = {"sealed": "c2VhbGVk"}
BY_NAME = {"from": "env:BILLING"}


@pytest.fixture(scope="module")
def conn(shared_conn: Connection) -> Connection:
    return shared_conn


def create(conn: Connection, name: str, tenant: UUID = TENANT_A, **config: Any) -> UUID:
    return create_as(conn, {"name": name, **config}, tenant)


def create_as(conn: Connection, config: dict[str, Any], tenant: UUID = TENANT_A) -> UUID:
    made: UUID = call_for_value(
        conn, "create_connector_config", id=uuid4(), config=config, tenant_id=tenant
    )
    return made


def test_a_configuration_shows_the_sources_of_its_secrets_but_not_their_values(
    conn: Connection,
) -> None:
    secrets = {"token": SEALED, "user": BY_NAME, "gone": None}
    made = create(conn, "shown", settings={"url": "https://x.example"}, secrets=secrets)
    [shown] = call(conn, "get_connector_config", id=made, tenant_id=TENANT_A)
    assert shown["secrets"] == {"token": "sealed", "user": "env:BILLING"}
    listed = call(conn, "list_connector_configs", tenant_id=TENANT_A)
    assert SEALED["sealed"] not in repr([shown, *listed])
    [kept] = call(conn, "open_connector_config", name="shown", tenant_id=TENANT_A)
    assert kept["secrets"] == {"token": SEALED, "user": BY_NAME}


def test_an_edit_changes_the_named_secrets_and_keeps_the_others(conn: Connection) -> None:
    made = create(conn, "edited", secrets={"old": SEALED, "kept": BY_NAME})
    changes = {"secrets": {"old": None, "new": {"from": "file:token"}}, "name": "renamed"}
    call(conn, "edit_connector_config", id=made, config=changes, tenant_id=TENANT_A)
    [kept] = call(conn, "open_connector_config", name="renamed", tenant_id=TENANT_A)
    assert kept["secrets"] == {"kept": BY_NAME, "new": {"from": "file:token"}}
    call(conn, "delete_connector_config", id=made, tenant_id=TENANT_A)
    with refused("JF004"):
        call(conn, "get_connector_config", id=made, tenant_id=TENANT_A)


URL = "https://api.example.com/v1/"
OTHER_ORIGINS = [
    "https://api.example.org/v1/",
    "https://api.example.com:8443/v1/",
    "http://api.example.com/v1/",
    "https://api.example.com.evil.example/",
    "https://api.example.com@evil.example/",
    r"https://evil.example\@api.example.com/",
    "https://api.example.com\t.evil.example/",
    "//evil.example/",
    "https:evil.example",
    "https://[::1]/",
    None,
    5,
]
SAME_ORIGIN = ["https://API.example.com:443/v2/", "HTTPS://api.example.com", URL]


@pytest.mark.attack("connectors")
def test_a_url_of_another_origin_needs_all_secrets_again(
    conn: Connection, attempts: Attempts
) -> None:
    secrets = {"token": SEALED, "user": BY_NAME}
    made = create(conn, "moved", settings={"url": URL}, secrets=secrets)
    own = {"id": made, "tenant_id": TENANT_A}
    partly: list[dict[str, Any]] = [{}, {"secrets": {}}, {"secrets": {"token": SEALED}}]
    for url in OTHER_ORIGINS:
        for given in partly:
            config = {"settings": {"url": url}, **given}
            first = "user" if given.get("secrets") else "token"
            with refused("JF015", field=f"secrets.{first}"):
                call(conn, "edit_connector_config", config=config, **own)
    with refused("JF015", missing=["token", "user"]):
        call(conn, "edit_connector_config", config={"settings": {}}, **own)
    attempts(len(OTHER_ORIGINS) * len(partly) + 1)
    for url in SAME_ORIGIN:
        call(conn, "edit_connector_config", config={"settings": {"url": url}}, **own)
    moved = {"settings": {"url": OTHER_ORIGINS[0]}, "secrets": {"token": SEALED, "user": None}}
    call(conn, "edit_connector_config", config=moved, **own)
    [kept] = call(conn, "open_connector_config", name="moved", tenant_id=TENANT_A)
    assert (kept["settings"], kept["secrets"]) == (moved["settings"], {"token": SEALED})


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("name", {"name": ""}),
    ("name", {"name": "a b"}),
    ("name", {"name": 5}),
    ("connector", {"connector": "smtp"}),
    ("settings", {"settings": []}),
    ("settings", {"settings": {"x": "y" * 17_000}}),
    ("secrets", {"secrets": []}),
    ("secrets.a b", {"secrets": {"a b": SEALED}}),
    ("secrets.token", {"secrets": {"token": {"from": "env:../etc/passwd"}}}),
    ("secrets.token", {"secrets": {"token": {"from": "vault:x"}}}),
    ("secrets.token", {"secrets": {"token": {"sealed": 5}}}),
    ("secrets.token", {"secrets": {"token": {**SEALED, **BY_NAME}}}),
    ("secrets.token", {"secrets": {"token": {"value": "clear"}}}),
    ("secrets.token", {"secrets": {"token": {}}}),
    ("secrets", {"secrets": {"token": "in clear"}}),
    ("secrets", {"secrets": {"token": 5}}),
    ("other", {"other": 1}),
]


def test_an_invalid_configuration_is_refused_by_field(conn: Connection) -> None:
    made = create(conn, "right")
    for field, config in WRONG:
        with refused("JF002", field=field):
            create_as(conn, {"name": "wrong", **config})
        with refused("JF002", field=field):
            call(conn, "edit_connector_config", id=made, config=config, tenant_id=TENANT_A)


def test_a_name_is_unique_within_its_tenant_only(conn: Connection) -> None:
    create(conn, "taken")
    create(conn, "taken", TENANT_B)
    other = create(conn, "other")
    with refused("JF005", field="name"):
        create(conn, "taken")
    with refused("JF005", field="name"):
        call(conn, "edit_connector_config", id=other, config={"name": "taken"}, tenant_id=TENANT_A)


def test_a_tenant_has_at_most_a_hundred_configurations(conn: Connection) -> None:
    tenant = uuid4()
    for number in range(100):
        create(conn, f"c{number}", tenant)
    with refused("JF005", limit=100):
        create(conn, "one-more", tenant)
    page = call(conn, "list_connector_configs", limit=60, tenant_id=tenant)
    rest = call(conn, "list_connector_configs", after=page[-1]["name"], tenant_id=tenant)
    names = [row["name"] for row in (*page, *rest)]
    assert names == sorted(f"c{number}" for number in range(100))


def test_the_first_key_of_a_tenant_is_kept(conn: Connection) -> None:
    tenant, first, second = uuid4(), b"1" * 60, b"2" * 60
    kept = [
        call(conn, "keep_tenant_key", key_id="k", wrapped=wrapped, tenant_id=tenant)
        for wrapped in (first, second)
    ]
    assert [bytes(row["wrapped"]) for [row] in kept] == [first, first]
    with refused("JF002", field="wrapped"):
        call(conn, "keep_tenant_key", key_id="k", wrapped=b"short", tenant_id=tenant)


def test_a_key_is_rewrapped_only_if_unchanged_since_it_was_read(conn: Connection) -> None:
    tenant = uuid4()
    call(conn, "keep_tenant_key", key_id="old", wrapped=b"1" * 60, tenant_id=tenant)
    for before, done in ((b"0" * 60, False), (b"1" * 60, True), (b"1" * 60, False)):
        assert call_for_value(
            conn, "rewrap_tenant_key", before=before, key_id="new", wrapped=b"2" * 60,
            tenant_id=tenant,
        ) is done  # fmt: skip
    of_old = {row["tenant_id"] for row in call(conn, "list_tenant_keys", key_id="new")}
    of_new = {row["tenant_id"] for row in call(conn, "list_tenant_keys", key_id="old")}
    assert tenant in of_new - of_old


def test_clients_neither_unseal_configurations_nor_read_the_tables(connect: Connect) -> None:
    client = connect("client_login")
    with as_tenant(client, TENANT_A):
        call(client, "list_connector_configs")
        for function, given in (
            ("open_connector_config", {"name": "x"}),
            ("keep_tenant_key", {"key_id": "k", "wrapped": b"1" * 60}),
        ):
            with refused("42501"), client.transaction():
                call(client, function, **given)
        for table in ("tenant_keys", "connector_configs"):
            with refused("42501"), client.transaction():
                client.execute(f"table jobforge.{table}".encode())
