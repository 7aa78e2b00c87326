"""`jobforge config`: show the effective settings and their origin."""

import re
from dataclasses import fields
from typing import Annotated

import typer

from jobforge import config
from jobforge.cli import output
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.options import AsJson, NoHeader
from jobforge.errors import Json

app = CommandGroup()


@app.command()
def show(
    *,
    origin: Annotated[
        bool,
        typer.Option(
            "--origin", help="Show the origin of each value: a variable, a file or the default."
        ),
    ] = False,
    as_json: AsJson = False,
    no_header: NoHeader = False,
) -> None:
    """Show all settings with their effective values. Secrets are redacted."""
    loaded = config.load()
    set_by = config.find_origins()
    rows = []
    for each in fields(loaded):
        row: dict[str, Json] = {"name": each.name, "value": _mask_value(each.name, loaded)}
        if origin or as_json:
            row["origin"] = set_by.get(each.name, "default")
        rows.append(row)
    output.print_rows(rows, as_json=as_json, no_header=no_header)


def _mask_value(name: str, loaded: config.Config) -> Json:
    value = getattr(loaded, name)
    if value in (None, (), {}):
        return None
    if isinstance(value, str) and ("://" in value or name.endswith("_url")):
        return _mask_url(value)
    if isinstance(value, str) and config.is_secret(name):
        return "***"
    return list(value) if isinstance(value, tuple) else value


# Other parameters are masked: a driver or store may use any of them for a secret.
_SHOWN_PARAMETERS = frozenset(
    (
        *("host", "hostaddr", "port", "dbname", "user", "sslmode", "sslrootcert", "sslcert"),
        *("channel_binding", "target_session_attrs", "application_name", "connect_timeout"),
        *("endpoint", "region", "path_style"),
    )
)
_PARAMETER = re.compile(r"(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s']\S*)(?=\s|\Z)")


def _mask_url(url: str) -> str:
    """Mask passwords and tokens in a URL or connection string; all of it if it is malformed."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return _mask_connection_string(url)
    if re.search(r"[\s\"'\\]", url) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        return "***"
    # Split at the last @, to hide all of a password that is not percent-encoded.
    given, at, place = rest.rpartition("@")
    user, colon, _ = given.partition(":")
    if at and not re.fullmatch(r"[^/?#@]*", user):
        return f"{scheme}://***@{_mask_parameters(place)}"
    return f"{scheme}://{user}{colon and ':***'}{at}{_mask_parameters(place)}"


def _mask_parameters(place: str) -> str:
    place, hash_, _ = place.partition("#")
    path, mark, query = place.partition("?")
    shown = [
        part if name in _SHOWN_PARAMETERS else f"{name}=***" if equals else "***"
        for part in filter(None, query.split("&"))
        for name, equals, _ in [part.partition("=")]
    ]
    return path + mark + "&".join(shown) + (hash_ and "#***")


def _mask_connection_string(text: str) -> str:
    if not re.fullmatch(rf"\s*(?:{_PARAMETER.pattern}\s*)*", text):
        return "***"
    return " ".join(
        f"{name}={value if name in _SHOWN_PARAMETERS else '***'}"
        for name, value in _PARAMETER.findall(text)
    )
