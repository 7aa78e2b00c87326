"""API keys: their tenant, how they end, and who may see them."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from cluster import Clock, Connect, Connection
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Row,
    as_tenant,
    call,
    call_for_value,
    count,
    refused,
)

DENIED = "42501"
HASH = hashlib.sha256(b"key").digest()


@pytest.fixture(scope="module")
def conn(shared_conn: Connection) -> Connection:
    return shared_conn


def lookup() -> str:
    return uuid4().hex[:8]


def create(conn: Connection, tenant: UUID | None = TENANT_A, **changes: Any) -> UUID:
    given = {"name": "ci", "role": "viewer", "lookup": lookup(), "hash": HASH, "tenant_id": tenant}
    key = call_for_value(conn, "create_api_key", **given | changes)
    assert isinstance(key, UUID)
    return key


def keys(conn: Connection, tenant: UUID | None) -> dict[UUID, Row]:
    return {row["id"]: row for row in call(conn, "list_api_keys", limit=200, tenant_id=tenant)}


def find(conn: Connection, lookup: str) -> Row:
    [row] = call(conn, "find_api_key", lookup=lookup)
    return row


def test_a_key_is_found_by_its_lookup_and_listed_without_its_hash(conn: Connection) -> None:
    name = lookup()
    key = create(conn, lookup=name, scopes=["jobs:read", "queues:*"], role="tenant_admin")
    row = find(conn, name)
    assert (row["id"], row["tenant_id"], row["role"]) == (key, TENANT_A, "tenant_admin")
    assert (bytes(row["hash"]), row["scopes"]) == (HASH, ["jobs:read", "queues:*"])
    assert row["is_live"]
    listed = keys(conn, TENANT_A)[key]
    assert listed["lookup"] == name
    assert "hash" not in listed
    assert call(conn, "find_api_key", lookup=lookup()) == []


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("role", {"role": "root"}),
    ("role", {"role": None}),
    ("role", {"role": "super_admin"}),
    ("tenant_id", {"role": "viewer", "tenant": None}),
    ("tenant_id", {"role": "tenant_admin", "tenant": None}),
    ("name", {"name": ""}),
    ("name", {"name": None}),
    ("name", {"name": "two\nlines"}),
    ("name", {"name": "n" * 201}),
    ("lookup", {"lookup": "short"}),
    ("lookup", {"lookup": "with sp."}),
    ("lookup", {"lookup": None}),
    ("hash", {"hash": b"short"}),
    ("hash", {"hash": None}),
    ("scopes", {"scopes": ["Jobs Read"]}),
    ("scopes", {"scopes": [None]}),
    ("scopes", {"scopes": ["s"] * 51}),
    ("expires_at", {"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}),
    ("expires_at", {"expires_at": "infinity"}),
]


def test_an_invalid_key_is_refused_by_field(conn: Connection) -> None:
    before = count(conn, "api_keys")
    for field, given in WRONG:
        with refused("JF002", field=field):
            create(conn, **given)
    assert count(conn, "api_keys") == before


def test_a_lookup_that_exists_is_a_conflict(conn: Connection) -> None:
    create(conn, lookup="takentak")
    with refused("JF005", field="lookup"):
        create(conn, TENANT_B, lookup="takentak")


def test_workers_of_all_tenants_and_super_admins_belong_to_the_installation(
    conn: Connection,
) -> None:
    own = {create(conn, None, role="worker"), create(conn, None, role="super_admin")}
    tenants = {create(conn), create(conn, TENANT_B, role="worker")}
    everything = keys(conn, None)
    assert own | tenants <= everything.keys()
    assert {everything[key]["tenant_id"] for key in own} == {None}
    assert own.isdisjoint(keys(conn, TENANT_A))


def test_a_revoked_key_is_invalid_at_once_and_stays_so(conn: Connection) -> None:
    name = lookup()
    key = create(conn, lookup=name)
    call(conn, "revoke_api_key", id=key, tenant_id=TENANT_A)
    first = find(conn, name)
    call(conn, "revoke_api_key", id=key, tenant_id=TENANT_A)
    assert not first["is_live"]
    assert find(conn, name)["revoked_at"] == first["revoked_at"]


def test_the_key_of_another_tenant_is_not_found(conn: Connection) -> None:
    foreign = create(conn, TENANT_B)
    for key in (foreign, uuid4()):
        with refused("JF004"):
            call(conn, "revoke_api_key", id=key, tenant_id=TENANT_A)
        with refused("JF004"):
            call(conn, "rotate_api_key", id=key, lookup=lookup(), hash=HASH, tenant_id=TENANT_A)
    assert keys(conn, TENANT_B)[foreign]["revoked_at"] is None


def test_a_rotated_key_remains_valid_for_the_overlap(shared_clock: Clock, conn: Connection) -> None:
    old, new = lookup(), lookup()
    expires_at = shared_clock.now() + timedelta(days=10)
    key = create(conn, lookup=old, scopes=["jobs:read"], expires_at=expires_at)
    shared_clock.travel(days=1)
    rotated = call_for_value(
        conn, "rotate_api_key", id=key, lookup=new, hash=HASH, overlap_s=60, tenant_id=TENANT_A
    )
    assert find(conn, old)["is_live"]
    row = find(conn, new)
    assert (row["id"], row["tenant_id"], row["role"]) == (rotated, TENANT_A, "viewer")
    assert row["scopes"] == ["jobs:read"]
    assert timedelta(days=9.9) < row["expires_at"] - shared_clock.now() <= timedelta(days=10)
    assert keys(conn, TENANT_A)[rotated]["rotated_from"] == key
    shared_clock.travel(seconds=61)
    assert not find(conn, old)["is_live"]
    assert find(conn, new)["is_live"]


def test_an_ended_key_is_not_rotated(shared_clock: Clock, conn: Connection) -> None:
    revoked, expired = create(conn), create(conn, expires_at=shared_clock.now() + timedelta(days=1))
    call(conn, "revoke_api_key", id=revoked, tenant_id=TENANT_A)
    shared_clock.travel(days=2)
    for key in (revoked, expired):
        with refused("JF005"):
            call(conn, "rotate_api_key", id=key, lookup=lookup(), hash=HASH, tenant_id=TENANT_A)


def test_an_overlap_is_bounded(conn: Connection) -> None:
    key = create(conn)
    for overlap in (-1.0, 2592001.0, float("nan"), None):
        with refused("JF002", field="overlap_s"):
            call(
                conn,
                "rotate_api_key",
                id=key,
                lookup=lookup(),
                hash=HASH,
                overlap_s=overlap,
                tenant_id=TENANT_A,
            )


def test_the_last_use_of_a_key_is_recorded_once_a_minute(
    shared_clock: Clock, conn: Connection
) -> None:
    name = lookup()
    key = create(conn, lookup=name)
    seen = []
    for seconds in (0, 50, 20):
        shared_clock.travel(seconds=seconds)
        call(conn, "touch_api_key", id=key)
        seen.append(find(conn, name)["last_used_at"])
    assert seen[0] is not None
    assert seen[0] == seen[1] < seen[2]


def test_pages_of_keys_continue_where_the_last_one_ended(conn: Connection) -> None:
    tenant = uuid4()
    made = [create(conn, tenant) for _ in range(5)]
    first = call(conn, "list_api_keys", limit=3, tenant_id=tenant)
    rest = call(conn, "list_api_keys", limit=3, before=first[-1]["id"], tenant_id=tenant)
    assert [row["id"] for row in first + rest] == made[::-1]


def test_changes_of_keys_are_audited_without_their_secrets(conn: Connection) -> None:
    tenant, first, second = uuid4(), lookup(), lookup()
    key = create(conn, tenant, lookup=first)
    new = call_for_value(conn, "rotate_api_key", id=key, lookup=second, hash=HASH, tenant_id=tenant)
    call(conn, "revoke_api_key", id=new, tenant_id=tenant)
    rows = call(conn, "list_audit", tenant_id=tenant)
    assert [(row["action"], row["target"]) for row in rows] == [
        ("key.revoke", str(new)),
        ("key.rotate", str(key)),
        ("key.create", str(key)),
    ]
    assert not any(text in str(rows) for text in (first, second, HASH.hex()))


def test_within_a_tenant_the_server_creates_keys_of_that_tenant_only(
    connect: Connect,
) -> None:
    server = connect("server_login")
    with as_tenant(server, TENANT_A):
        key = create(server, None)
        assert keys(server, None)[key]["tenant_id"] == TENANT_A
    with refused("JF002", field="role"), as_tenant(server, TENANT_A):
        create(server, None, role="super_admin")
    with refused("JF006"), as_tenant(server, TENANT_A):
        create(server, TENANT_B)


def test_only_the_server_checks_keys_and_only_it_and_operators_create_them(
    connect: Connect,
) -> None:
    for login in ("client_login", "service_login", "worker_login"):
        conn = connect(login)
        for attempt in (create, keys):
            with refused(DENIED), as_tenant(conn, TENANT_A):
                attempt(conn, TENANT_A)
        with refused(DENIED):
            conn.execute("select hash from jobforge.api_keys")
    with refused(DENIED):
        call(connect("admin_login"), "find_api_key", lookup="somebody")
    create(connect("admin_login"), None, role="super_admin")
    assert call(connect("server_login"), "find_api_key", lookup="somebody") == []


def test_an_ended_session_is_kept_until_it_would_have_expired(
    shared_clock: Clock, conn: Connection
) -> None:
    session, another = uuid4().bytes, uuid4().bytes
    end = shared_clock.now() + timedelta(hours=12)
    for _ in range(2):
        call(conn, "end_session", id=session, expires_at=end)
    assert call_for_value(conn, "is_session_ended", id=session)
    assert not call_for_value(conn, "is_session_ended", id=another)
    for wrong in ({"id": b"short"}, {"expires_at": end + timedelta(days=400)}):
        with refused("JF002", field=next(iter(wrong))):
            call(conn, "end_session", **{"id": another, "expires_at": end} | wrong)
    shared_clock.travel(hours=13)
    call(conn, "apply_retention")
    assert not call_for_value(conn, "is_session_ended", id=session)


def test_a_rotated_key_ends_no_later_than_requested(shared_clock: Clock, conn: Connection) -> None:
    end = shared_clock.now() + timedelta(minutes=1)
    for own in (None, end + timedelta(days=30)):
        old, name = create(conn, expires_at=own), lookup()
        new = {"id": old, "lookup": name, "hash": HASH, "tenant_id": TENANT_A}
        with refused("JF002", field="ends_by"):
            call(conn, "rotate_api_key", **new, ends_by=shared_clock.now() - timedelta(seconds=1))
        call(conn, "rotate_api_key", **new, ends_by=end)
        assert find(conn, name)["expires_at"] == end
