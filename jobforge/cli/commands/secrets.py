"""`jobforge secrets`: create and rotate the installation's secret key (envelope encryption)."""

from typing import TYPE_CHECKING

import typer

from jobforge.cli import output
from jobforge.cli.database import DatabaseUrlOption
from jobforge.cli.engine import CliEngine, ConnectionOptions, open_engine
from jobforge.config import load
from jobforge.errors import ConfigError

if TYPE_CHECKING:
    from jobforge.security.vault import Vault

app = typer.Typer(
    help="Create and rotate the key that encrypts tenant secrets.", no_args_is_help=True
)

_PAGE = 100


@app.command()
def key() -> None:
    """Print a new secret key.

    Set JOBFORGE_SECRET_KEY to it, or write it to the file in JOBFORGE_SECRET_KEY_FILE.
    """
    from jobforge.security.vault import make_secret_key

    typer.echo(make_secret_key())


@app.command()
def rotate(*, database_url: DatabaseUrlOption = None) -> None:
    """Re-encrypt all tenant keys with secret_key.

    secret_key_previous must contain the old key. Secrets stay as they are. Safe to repeat, and to
    run while workers that have both keys are running.
    """
    from jobforge.security.vault import open_vault

    config = load(flags={"database_url": database_url})
    if config.secret_key is None:
        raise ConfigError(
            "secret_key must be set to the new key, and secret_key_previous to the old key",
            field="secret_key",
        )
    vault = open_vault(config)
    with open_engine(ConnectionOptions(database_url)) as engine:
        count = _rotate(engine, vault)
    output.note(
        f"{count} tenant key{'s' * (count != 1)} re-encrypted with secret key {vault.key_id}"
    )


def _rotate(engine: CliEngine, vault: "Vault") -> int:
    from jobforge import calls

    count, after = 0, None
    while True:
        page = engine.run(calls.list_tenant_keys(vault.key_id, limit=_PAGE, after=after))
        for tenant_id, wrapped_key in page:
            rewrapped = vault.rewrap(tenant_id, wrapped_key)
            count += engine.run(
                calls.rewrap_tenant_key(wrapped_key, rewrapped, tenant_id=tenant_id)
            )
        if len(page) < _PAGE:
            return count
        after = page[-1].tenant_id
