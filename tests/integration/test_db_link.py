"""The connection that one loop keeps: durable or not, and anew after it was lost."""

import pytest
from cluster import Connection, Database
from integration.worker_harness import cut_connections

from jobforge import db
from jobforge.calls import Call
from jobforge.errors import Unavailable

pytestmark = pytest.mark.anyio

DURABILITY: Call[str] = Call(
    "select current_setting('synchronous_commit')", (), lambda rows: str(rows[0][0])
)


@pytest.mark.parametrize("behind_pooler", [False, True])
async def test_only_a_link_that_need_not_be_durable_commits_without_waiting(
    database: Database, conn: Connection, *, behind_pooler: bool
) -> None:
    conn.execute(f"alter database {database.name} set synchronous_commit = local")
    async with db.Database(database.url, behind_pooler=behind_pooler) as pool:
        durable, relaxed = pool.create_link(), pool.create_link(durable=False)
        assert await durable.run(DURABILITY) == "local"
        assert await relaxed.run(DURABILITY) == "off"
        await durable.close()
        await relaxed.close()


async def test_a_link_that_was_cut_fails_once_and_then_connects_again(
    database: Database, conn: Connection
) -> None:
    async with db.Database(database.url) as pool:
        link = pool.create_link()
        await link.run(DURABILITY)
        cut_connections(conn)
        with pytest.raises(Unavailable):
            await link.run(DURABILITY)
        assert await link.run(DURABILITY) == "off"
        await link.close()


async def test_a_link_that_was_never_used_is_closed_without_a_word(database: Database) -> None:
    await db.Database(database.url).create_link().close()
