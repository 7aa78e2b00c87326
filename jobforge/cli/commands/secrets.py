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

app = typer.Typer(help="The key that seals what tenants keep secret.", no_args_is_help=True)

_PAGE = 100


@app.command()
def key() -> None:
    """Print a new key.

    It goes into JOBFORGE_SECRET_KEY, or into the file that JOBFORGE_SECRET_KEY_FILE names.
    """
    from jobforge.security.vault import make_secret_key

    typer.echo(make_secret_key())


@app.command()
def rotate(*, database_url: DatabaseUrlOption = None) -> None:
    """Wrap the keys of all tenants anew.

    They were wrapped by secret_key_previous, and are by secret_key then. No secret is opened or
    changed. It can be run again, and beside workers that know both keys.
    """
    from jobforge.security.vault import open_vault

    config = load(flags={"database_url": database_url})
    if config.secret_key is None:
        raise ConfigError(
            "the new key must be set as secret_key, the old one as secret_key_previous",
            field="secret_key",
        )
    vault = open_vault(config)
    with open_engine(ConnectionOptions(database_url)) as engine:
        count = _rotate(engine, vault)
    output.note(f"{count} keys of tenants are wrapped by {vault.key_id} now")


def _rotate(engine: CliEngine, vault: "Vault") -> int:
    from jobforge import calls

    count, after = 0, None
    while True:
        page = engine.run(calls.list_tenant_keys(vault.key_id, limit=_PAGE, after=after))
        for tenant_id, kept in page:
            made = vault.rewrap(tenant_id, kept)
            count += engine.run(calls.rewrap_tenant_key(kept, made, tenant_id=tenant_id))
        if len(page) < _PAGE:
            return count
        after = page[-1].tenant_id
