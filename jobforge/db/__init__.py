"""Postgres access: connections, tenant transactions, and running a Call.

calls/ defines which SQL functions exist. Nothing in this package relies on session state, so all of
it works through PgBouncer in transaction mode; only LISTEN needs a session, and opens a separate
connection. driver.py translates driver errors to the classes of errors.py.
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
