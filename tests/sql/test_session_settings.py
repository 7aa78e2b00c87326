"""Values that the engine caches in session settings: a login that forges one harms only itself.

Any login can set them, and behind a pooler the next client of the same login gets the values of the
previous one. So no value may break a claim or an enqueue, or lift a limit.
"""

import hashlib
import json
from collections.abc import Iterator

import pytest
from attacks import Attempts
from cluster import Connect, Connection
from sql.engine import (
    TENANT_A,
    TENANT_B,
    call,
    claim,
    count,
    definition,
    enqueue,
    enqueue_one,
    new_worker,
    refused,
)

QUEUE = "default"
PENDING = f"jobforge.pending_{TENANT_A.bytes[-1] & 63}"
FAR = "9999-12-31T00:00:00Z"
ENDLESS = "infinity"
NIL = "00000000-0000-0000-0000-000000000000"

attack = pytest.mark.attack("session settings")


def queue_setting(name: str) -> str:
    return f"jobforge.{name}_" + hashlib.md5(QUEUE.encode(), usedforsecurity=False).hexdigest()


def _cursor(**members: object) -> str:
    return json.dumps({QUEUE: members})


CURSORS = [
    "x",
    "[]",
    "null",
    '{"default": 5}',
    "[" * 20_000,
    _cursor(tenant=NIL, served=2**63 - 1),
    _cursor(tenant=NIL, served=-(2**63)),
    _cursor(tenant="ffffffff-ffff-ffff-ffff-ffffffffffff", served=1e300),
    _cursor(small=True, slow=True, gate="x", complete=True),
    _cursor(heads_until=FAR, complete=True, gated=False),
    _cursor(heads_until=ENDLESS, rescan_at=ENDLESS, idle_until=ENDLESS, complete=True, gated=False),
    _cursor(heads_until=FAR, complete=True, gated=False, rescan_at="-infinity"),
]
SERVED = ["x", "{stamp}", "{stamp} x", "{stamp} ", " ", "{stamp} false x"]
PROMOTED = [
    "x",
    "{}",
    "{{{{{{{{1}}}}}}}}",
    f"{{{ENDLESS},{ENDLESS}}}",
    f"{{{FAR},{FAR}}}",
    f"{{-infinity,{FAR}}}",
    f'{{NULL,"{FAR}"}}',
]
HEADS = [
    "x",
    "(,,,)",
    '("{}","{}","{}","{}")',
    f'("{{{NIL}}}","{{0}}","{{NaN}}","{{{NIL}}}")',
    f'("{{{NIL}}}","{{0}}","{{1e300}}","{{{NIL}}}")',
    f'("{{{NIL}}}","{{0}}","{{Infinity}}","{{{NIL}}}")',
    f'("{{{NIL}}}","{{}}","{{}}","{{}}")',
    f'("{{{{{NIL}}}}}","{{{{0}}}}","{{{{0}}}}","{{{{{NIL}}}}}")',
    '("{NULL}","{0}","{0}","{NULL}")',
]


@pytest.fixture(autouse=True)
def limited_world(conn: Connection) -> None:
    definition(conn)


def forgeries(conn: Connection) -> Iterator[list[tuple[str, str]]]:
    """Return settings to forge together."""
    [row] = conn.execute(
        "select hash_array_extended(array['test@1'] collate \"C\", 0) || '/' || count(*) as stamp "
        "  from jobforge.definitions"
    ).fetchall()
    remembered = _cursor(heads_until=_soon(conn), complete=True, gated=False)
    rescanned = _cursor(heads_until=_soon(conn), complete=True, gated=False, rescan_at="-infinity")
    yield from ([("jobforge.cursors", text)] for text in CURSORS)
    yield from ([("jobforge.served", text.replace("{stamp}", row["stamp"]))] for text in SERVED)
    yield from ([("jobforge.promoted", text)] for text in PROMOTED)
    for text in HEADS:
        yield [("jobforge.cursors", remembered), (queue_setting("heads"), text)]
        yield [("jobforge.cursors", rescanned), (queue_setting("scanned"), text)]
    yield from ([(PENDING, text)] for text in ("x", f"{TENANT_A}", f"{TENANT_A} 1 2 3 4"))


def _soon(conn: Connection) -> str:
    [row] = conn.execute("select (now() + interval '20 seconds')::text as at").fetchall()
    return str(row["at"])


@attack
def test_no_value_breaks_a_claim_or_an_enqueue(
    conn: Connection, connect: Connect, attempts: Attempts
) -> None:
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={"max_pending": 11_000})
    tried = 0
    for settings in forgeries(conn):
        session = connect()
        for name, value in settings:
            session.execute("select set_config(%s, %s, false)", [name, value])
        [due] = enqueue(session, TENANT_A)
        late = enqueue_one(session, TENANT_A, delay_s=0.001)
        conn.execute(
            "update jobforge.jobs set run_at = now() - interval '1 minute'"
            " where state = 'scheduled'"
        )
        worker = new_worker()
        # The first claim may rely on remembered positions, and finds that their jobs are taken.
        held = [
            row["job_id"]
            for _ in range(3)
            for row in claim(session, worker, limit=10, definitions=["test@1"])
        ]
        assert set(held) == {due, late}, settings
        session.close()
        tried += 1
    attempts(tried)


@attack
def test_a_forged_count_does_not_lift_the_pending_limit(
    conn: Connection, connect: Connect, attempts: Attempts
) -> None:
    """The text is in the form that the engine writes, and in that of earlier releases."""
    for limit in (10, 11_000):
        call(conn, "put_tenant", tenant_id=TENANT_A, settings={"max_pending": limit})
        enqueue(conn, TENANT_A, n=limit - count(conn, "jobs"))
        session = connect()
        last = "ffffffff-ffff-ffff-ffff-ffffffffffff"
        [row] = conn.execute("select extract(epoch from clock_timestamp()) as at").fetchall()
        at = float(row["at"])
        signatures = ("", " ", " x", " " + "0" * 64, " " + hashlib.sha256(b"").hexdigest())
        for until in (f"{at + 30}", f"{1000 * at + 30_000:.0f}"):
            for signature in signatures:
                forged = f"{TENANT_A} {until} {last} 0{signature}"
                session.execute("select set_config(%s, %s, false)", [PENDING, forged])
                with refused("JF008", depth=limit):
                    enqueue_one(session, TENANT_A)
        attempts(2 * len(signatures))


@attack
def test_an_earlier_count_that_is_restored_does_not_lift_the_pending_limit(
    conn: Connection, connect: Connect
) -> None:
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={"max_pending": 11_000})
    session = connect()
    enqueue_one(session, TENANT_A)
    [kept] = session.execute("select current_setting(%s) as text", [PENDING]).fetchall()
    assert kept["text"], "the session caches a count"
    enqueue(session, TENANT_A, n=10_999)
    for other in (session, connect()):
        other.execute("select set_config(%s, %s, false)", [PENDING, kept["text"]])
        with refused("JF008", depth=11_000):
            enqueue_one(other, TENANT_A)


@attack
def test_a_count_is_signed_for_its_tenant(conn: Connection, connect: Connect) -> None:
    """Both tenants have the same position."""
    other = TENANT_B.hex[:-2] + TENANT_A.hex[-2:]
    for tenant in (TENANT_A, other):
        call(conn, "put_tenant", tenant_id=tenant, settings={"max_pending": 11_000})
    enqueue(conn, TENANT_A, n=11_000)
    session = connect()
    call(session, "enqueue_job", definition="test", tenant_id=other)
    [kept] = session.execute("select current_setting(%s) as text", [PENDING]).fetchall()
    renamed = " ".join([str(TENANT_A), *kept["text"].split()[1:]])
    session.execute("select set_config(%s, %s, false)", [PENDING, renamed])
    with refused("JF008", depth=11_000):
        enqueue_one(session, TENANT_A)


@attack
def test_no_login_can_read_the_signing_key(conn: Connection, connect: Connect) -> None:
    for login in ("client_login", "service_login", "worker_login", "server_login", "admin_login"):
        for query in (
            "select value from jobforge.signing_key",
            "select jobforge_private.sign('x')",
            "copy jobforge.signing_key to stdout",
        ):
            with refused("42501"):
                connect(login).execute(query.encode())
    [row] = conn.execute("select octet_length(value) as n from jobforge.signing_key").fetchall()
    assert row["n"] == 32
