"""The connection of one loop: durable or not, and reconnected after a loss."""

import pytest
from cluster import Connection, Database
from integration.worker_harness import cut_connections

from jobforge import db
from jobforge.calls.call import Call, query
from jobforge.errors import Unavailable

pytestmark = pytest.mark.anyio

DURABILITY: Call[str] = query(
    "select current_setting('synchronous_commit')", (), lambda rows: str(rows[0][0])
)


@pytest.mark.parametrize("behind_pooler", [False, True])
async def test_only_a_link_without_durability_commits_asynchronously(
    database: Database, conn: Connection, *, behind_pooler: bool
) -> None:
    conn.execute(f"alter database {database.name} set synchronous_commit = local")
    async with db.Database(database.url, behind_pooler=behind_pooler) as pool:
        durable, relaxed = pool.create_link(), pool.create_link(durable=False)
        assert await durable.run(DURABILITY) == "local"
        assert await relaxed.run(DURABILITY) == "off"
        await durable.close()
        await relaxed.close()


async def test_a_cut_link_fails_once_and_then_reconnects(
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


async def test_an_unused_link_closes_silently(database: Database) -> None:
    await db.Database(database.url).create_link().close()
