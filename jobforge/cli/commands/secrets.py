"""`jobforge secrets`: create and rotate the installation's secret key (envelope encryption)."""

from itertools import chain
from typing import TYPE_CHECKING

import typer

from jobforge import calls
from jobforge.cli import output
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.engine import CliEngine
from jobforge.cli.listing_output import read_pages
from jobforge.cli.shared_options import DATABASE
from jobforge.errors import ConfigError
from jobforge.types.connectors import TenantWrappedKey

if TYPE_CHECKING:
    from jobforge.security.vault import Vault

app = CommandGroup()


@app.command()
def key() -> None:
    """Print a new secret key.

    Set JOBFORGE_SECRET_KEY to it, or write it to the file in JOBFORGE_SECRET_KEY_FILE.
    """
    from jobforge.security.vault import make_secret_key

    typer.echo(make_secret_key())


@app.command(options=DATABASE)
def rotate(context: CommandContext) -> None:
    """Re-encrypt all tenant keys with secret_key.

    secret_key_previous must contain the old key. The secrets do not
    change. You can repeat the command, and run it while workers that have both keys are running.
    """
    from jobforge.security.vault import open_vault

    if context.config.secret_key is None:
        raise ConfigError(
            "secret_key must be set to the new key, and secret_key_previous to the old key",
            field="secret_key",
        )
    vault = open_vault(context.config)
    count = _rotate(context.engine, vault)
    output.note(
        f"{count} tenant key{'s' * (count != 1)} re-encrypted with secret key {vault.key_id}"
    )


def _rotate(engine: CliEngine, vault: "Vault") -> int:
    def read(size: int, last: TenantWrappedKey | None) -> list[TenantWrappedKey]:
        after = last.tenant_id if last else None
        return engine.run(calls.list_tenant_keys(vault.key_id, limit=size, after=after))

    count = 0
    for tenant_id, stored_key in chain.from_iterable(read_pages(read)):
        rewrapped = vault.rewrap(tenant_id, stored_key)
        count += engine.run(calls.rewrap_tenant_key(stored_key, rewrapped, tenant_id=tenant_id))
    return count
