"""The seam to Postgres: connections, the tenant of a transaction, and running a Call.

Which functions there are, calls/ knows. Nothing here relies on the state of a session, so all of it
works through PgBouncer in transaction mode; only LISTEN needs a session, and has a connection of
its own. Every error of the driver becomes one of errors.py (driver.py) here.
"""

from jobforge.db.connection import (
    AsyncConnection,
    Connection,
    arun,
    atransaction,
    connect,
    run,
    tenant,
    transaction,
)
from jobforge.db.database import Database, TenantTransaction
from jobforge.db.link import DedicatedConnection
from jobforge.db.pool import Pool

__all__ = [
    "AsyncConnection",
    "Connection",
    "Database",
    "DedicatedConnection",
    "Pool",
    "TenantTransaction",
    "arun",
    "atransaction",
    "connect",
    "run",
    "tenant",
    "transaction",
]
