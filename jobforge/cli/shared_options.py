"""Sets of options that many commands share.

Each function declares the options of one set by its parameters. CommandGroup adds them to commands,
and CommandContext has their values.
"""

from collections.abc import Callable
from typing import Annotated

import typer

from jobforge.cli.completions import (
    complete_definitions,
    complete_ids,
    complete_queues,
    complete_tenants,
)
from jobforge.cli.options import AsJson, FieldNames, NoHeader, WaitOption, Yes

IdArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        autocompletion=complete_ids,
        help="ID, or at least its first 8 characters.",
    ),
]
OptionSets = tuple[Callable[..., None], ...]
DatabaseUrlOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Database URL. Default: JOBFORGE_DATABASE_URL, jobforge.toml, or the running "
        "`jobforge dev`.",
    ),
]


def database_options(*, database_url: DatabaseUrlOption = None) -> None:
    """Select a database."""


def connection_options(
    *,
    database_url: DatabaseUrlOption = None,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Server URL, instead of a database. Default: JOBFORGE_SERVER or jobforge.toml.",
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            "--api-key",
            "--key",
            metavar="KEY",
            help="API key for the server. Prefer JOBFORGE_KEY: other users can see arguments.",
        ),
    ] = None,
) -> None:
    """Select a database or a server."""


def tenant_options(
    *,
    tenant: Annotated[
        str | None,
        typer.Option(
            metavar="SLUG|ID",
            autocompletion=complete_tenants,
            help="Slug or ID of the tenant. Default: JOBFORGE_TENANT or jobforge.toml.",
        ),
    ] = None,
) -> None:
    """Select a tenant."""


def tenant_or_all_options(
    *,
    tenant: Annotated[
        str | None,
        typer.Option(
            metavar="SLUG|ID|*",
            autocompletion=complete_tenants,
            help="Slug or ID of the tenant, or '*' for all. Default: JOBFORGE_TENANT, "
            "jobforge.toml, or all.",
        ),
    ] = None,
) -> None:
    """Select a tenant or all tenants."""


def listing_options(
    *,
    as_json: AsJson = False,
    as_json_lines: Annotated[
        bool, typer.Option("--jsonl", help="Print one JSON object per line.")
    ] = False,
    field_names: FieldNames = None,
    no_header: NoHeader = False,
) -> None:
    """Select the format and the fields of a listing."""


def quiet_options(
    *, quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only IDs.")] = False
) -> None:
    """Print only IDs."""


def filter_options(
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE",
            help="State to match; failed matches jobs whose last attempt failed. Repeatable.",
        ),
    ] = None,
    definition: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", autocompletion=complete_definitions, help="Definition to match."
        ),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(metavar="NAME", autocompletion=complete_queues, help="Queue to match."),
    ] = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Tag to match.")] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="QUERY",
            help="Filter query as in the dashboard: 'state:dead,failed queue:mail after:1h'.",
        ),
    ] = None,
) -> None:
    """Select jobs."""


def bulk_options(
    *,
    yes: Yes = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count the matching jobs.")
    ] = False,
    wait: WaitOption = True,
) -> None:
    """Confirm or try a bulk operation."""


DATABASE = (database_options,)
ENGINE = (connection_options,)
TENANT = (tenant_options, connection_options)
TENANT_OR_ALL = (tenant_or_all_options, connection_options)
LISTING = (listing_options,)
QUIET = (quiet_options,)
FILTER = (filter_options,)
BULK = (bulk_options,)
