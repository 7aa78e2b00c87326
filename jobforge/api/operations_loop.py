"""Operations loop: every server advances bulk operations and erasures, one step at a time.

Progress is stored in the database and each step locks its operation, so servers may start, stop or
be killed at any moment.
"""

from jobforge import calls
from jobforge.artifacts import Artifacts
from jobforge.artifacts.erasure import erase_artifacts
from jobforge.db import Database
from jobforge.db.background_loop import BackgroundLoop
from jobforge.timing.backoff import add_jitter

_IDLE_S = 2.5


def operations_loop(database: Database, artifacts: Artifacts) -> BackgroundLoop:
    """Return the loop; wake it after starting an operation."""

    async def advance(loop: BackgroundLoop) -> None:
        if await database.run(calls.advance_operations()) is not None:
            return
        if not await erase_artifacts(database.run, artifacts):
            await loop.wait_for_wake(add_jitter(_IDLE_S))

    return BackgroundLoop("operations", advance, failure_event="operation.stuck")
