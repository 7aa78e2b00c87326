"""What `jobforge dev` puts into the database of its folder: the schema, a tenant, a key."""

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from jobforge.db.migrate import Connection
    from jobforge.security.api_keys import KeyText

TENANT = "acme"


def prepare(conn: "Connection") -> int:
    """Brings the schema up to date and makes the tenant; answers how many files were applied."""
    from jobforge import calls, db
    from jobforge.db.migrate import migrate
    from jobforge.errors import NotFound

    applied = len(migrate(conn))
    try:
        db.run(conn, calls.find_tenant(TENANT))
    except NotFound:
        db.run(conn, calls.put_tenant(uuid4(), {"slug": TENANT}))
    return applied


def find_key(path: Path, conn: "Connection") -> "KeyText":
    """The super admin's key of this folder: the one that is there, unless it was ended."""
    from jobforge import calls, db
    from jobforge.security.api_keys import make_key, read_key
    from jobforge.types.api_keys import Role

    kept = read_key(path.read_text(encoding="utf-8").strip()) if path.exists() else None
    if kept is not None:
        found = db.run(conn, calls.find_api_key(kept.lookup))
        if found is not None and found.is_live and kept.fits(found.hash):
            return kept
        if found is not None:
            kept = None
    key = kept or make_key()
    call = calls.create_api_key("dev", Role.SUPER_ADMIN, lookup=key.lookup, hash=key.hash)
    db.run(conn, call)
    path.touch(mode=0o600)
    path.write_text(key.text + "\n", encoding="utf-8")
    return key
