"""`jobforge db bind-login`, `unbind-login`, `logins`: bind database logins to tenants."""

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from jobforge.cli import output
from jobforge.cli.database import DatabaseUrlOption, connect
from jobforge.cli.listing_output import ListingFormat, print_listing, with_listing_format
from jobforge.errors import NotFound

if TYPE_CHECKING:
    from jobforge.db.connection import Connection
    from jobforge.types.tenants import BoundLogin

app = typer.Typer()

LoginArgument = Annotated[str, typer.Argument(metavar="LOGIN", help="Name of a database role.")]


@app.command("bind-login")
def bind_login(
    login: LoginArgument,
    *,
    tenant: Annotated[
        list[str],
        typer.Option(
            "--tenant", metavar="SLUG|ID", help="Tenant that the login can act for. Repeatable."
        ),
    ],
    database_url: DatabaseUrlOption = None,
) -> None:
    """Bind a database login to tenants.

    The login can then act only for these tenants, also in open sessions. They replace the tenants
    that it was bound to.
    """
    from jobforge import calls, db

    with connect(database_url) as conn:
        tenants = [_find_tenant(conn, each) for each in tenant]
        db.run(conn, calls.bind_login(login, tenants))
    output.note(f"Login {login} can act only for {', '.join(tenant)}")


@app.command("unbind-login")
def unbind_login(login: LoginArgument, *, database_url: DatabaseUrlOption = None) -> None:
    """Unbind a database login: it can act for every tenant again."""
    from jobforge import calls, db

    with connect(database_url) as conn:
        db.run(conn, calls.unbind_login(login))
    output.note(f"Login {login} can act for every tenant")


@app.command("logins")
@with_listing_format
def logins(form: ListingFormat, *, database_url: DatabaseUrlOption = None) -> None:
    """List the database logins that are bound to tenants."""
    from jobforge import calls, db
    from jobforge.types.tenants import BoundLogin

    with connect(database_url) as conn:
        found = db.run(conn, calls.list_bound_logins())
    print_listing(found, BoundLogin, _to_row, form=form)


def _to_row(login: "BoundLogin") -> output.OutputRow:
    return {
        "login": login.login,
        "tenants": ", ".join(login.slugs),
        "bound_at": login.bound_at,
        "bound_by": login.bound_by,
        "fault": login.fault,
    }


def _find_tenant(conn: "Connection", text: str) -> UUID:
    from jobforge import calls, db

    try:
        return UUID(text)
    except ValueError:
        pass
    try:
        return db.run(conn, calls.find_tenant(text))
    except NotFound as error:
        raise NotFound(f"Tenant {text!r} not found", hint="jobforge tenants list") from error
