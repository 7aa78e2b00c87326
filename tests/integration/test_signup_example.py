"""The sign-up sequence of examples/ with a moved clock: with and without an event, and a day's
sleep.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from integration.example_programs import load_example
from psycopg.types.json import Jsonb

from jobforge import JobForge
from jobforge.embedded import PostgresServer
from jobforge.sdk.definition import Definition
from jobforge.testing import Kit
from jobforge.testing.cluster import Postgres
from jobforge.testing.kit import open_kit

TENANT = uuid4()


@pytest.fixture(scope="module")
def app() -> JobForge:
    found: JobForge = load_example("signup", "app.py").jf
    return found


@pytest.fixture(scope="module")
def kit(server: PostgresServer, app: JobForge) -> Iterator[Kit]:
    with open_kit(Postgres(server.url(), is_durable=False)) as kit:
        kit.use(app)
        yield kit


@pytest.fixture
def sign_up(app: JobForge) -> Definition[..., Any]:
    return app.definitions["sign_up"]


def confirm(kit: Kit, address: str, tenant_id: UUID) -> None:
    """Emit the event and dispatch it to the job's wait."""
    with psycopg.connect(kit.url, user="postgres", options="-c role=none") as conn:
        conn.execute(
            "select jobforge_private.resume_waits(%s, %s, 'address.confirmed', %s)",
            [tenant_id, uuid4(), Jsonb({"address": address})],
        )


def test_a_sign_up_is_finished_after_a_day_or_abandoned(
    kit: Kit, sign_up: Definition[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = {
        address: sign_up.using(tenant=TENANT).enqueue(address=address)
        for address in ("ada", "bob", "eve")
    }
    kit.drain(with_scheduled=False)
    confirm(kit, "ada", TENANT)
    kit.drain(with_scheduled=False)
    kit.travel(days=1)
    kit.drain(with_scheduled=False)
    assert jobs["ada"].result() == "confirmed"
    kit.travel(days=2)
    kit.drain(with_scheduled=False)
    confirm(kit, "bob", TENANT)
    kit.drain()
    assert (jobs["bob"].result(), jobs["eve"].result()) == ("confirmed", "not confirmed")
    mails = capsys.readouterr().out.splitlines()
    assert len(mails) == len(set(mails)) == 3 + 2 + 2
