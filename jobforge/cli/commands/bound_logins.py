"""`jobforge db bind-login`, `unbind-login`, `logins`: bind database logins to tenants."""

from typing import Annotated

import typer

from jobforge import calls, db
from jobforge.cli import output
from jobforge.cli.context import CommandContext, find_tenant
from jobforge.cli.engine import DirectEngine
from jobforge.cli.listing_output import print_listing
from jobforge.types.tenants import BoundLogin

LoginArgument = Annotated[str, typer.Argument(metavar="LOGIN", help="Name of a database role.")]


def bind_login(
    context: CommandContext,
    login: LoginArgument,
    *,
    tenants: Annotated[
        list[str],
        typer.Option(
            "--tenant", metavar="SLUG|ID", help="Tenant that the login can act for. Repeatable."
        ),
    ],
) -> None:
    """Bind a database login to tenants.

    The login can then act only for these tenants, also in open sessions. They replace the tenants
    that it was bound to.
    """
    with context.connect() as conn:
        engine = DirectEngine(conn, context.config)
        engine.run(calls.bind_login(login, [find_tenant(engine, each) for each in tenants]))
    output.note(f"Login {login} can act only for {', '.join(tenants)}")


def unbind_login(context: CommandContext, login: LoginArgument) -> None:
    """Unbind a database login: it can act for every tenant again."""
    with context.connect() as conn:
        db.run(conn, calls.unbind_login(login))
    output.note(f"Login {login} can act for every tenant")


def logins(context: CommandContext) -> None:
    """List the database logins that are bound to tenants."""
    with context.connect() as conn:
        found = db.run(conn, calls.list_bound_logins())
    print_listing([found], BoundLogin, _to_row, form=context.listing_format)


def _to_row(login: BoundLogin) -> output.OutputRow:
    return {
        "login": login.login,
        "tenants": ", ".join(login.slugs),
        "bound_at": login.bound_at,
        "bound_by": login.bound_by,
        "fault": login.fault,
    }
