"""Errors about URLs, `config show` and viewers' responses show no part of a credential."""

import asyncio
from pathlib import Path

import pytest
from attacks import Attempts
from integration.terminal import InProcessTerminal

from jobforge.cli.database import connect
from jobforge.cli.processes import worker_process
from jobforge.config import Config
from jobforge.db import Database
from jobforge.errors import JobForgeError

SECRET = "s3cr3t-canary"
PLACE = "127.0.0.1:1/app"

# Valid and invalid ways to put a password into a database URL.
URLS = {
    "plain": f"postgresql://ada:{SECRET}@{PLACE}",
    "with an at sign before it": f"postgresql://ada:p@{SECRET}@{PLACE}",
    "with an at sign after it": f"postgresql://ada:{SECRET}@x@{PLACE}",
    "with a slash before it": f"postgresql://ada:p/{SECRET}@{PLACE}",
    "with a slash after it": f"postgresql://ada:{SECRET}/x@{PLACE}",
    "between an at sign and a slash": f"postgresql://ada:p@{SECRET}/x@{PLACE}",
    "between a number and a slash": f"postgresql://127.0.0.1:1/{SECRET}@{PLACE}",
    "with a hash": f"postgresql://ada:{SECRET}#x@{PLACE}",
    "with a question mark before it": f"postgresql://ada:p?{SECRET}@{PLACE}",
    "with a question mark after it": f"postgresql://ada:{SECRET}?x@{PLACE}",
    "with a wrong percent sign": f"postgresql://ada:{SECRET}%zz@{PLACE}",
    "with a wrong percent sign before it": f"postgresql://ada:%zz{SECRET}@{PLACE}",
    "with a zero byte": f"postgresql://ada:{SECRET}%00@{PLACE}",
    "with a colon": f"postgresql://ada:p:{SECRET}@{PLACE}",
    "with a bracket": f"postgresql://ada:{SECRET}[x@{PLACE}",
    "with an at sign and a bracket": f"postgresql://ada:p@[{SECRET}@{PLACE}",
    "with a space": f"postgresql://ada:p {SECRET}@{PLACE}",
    "with a line end": f"postgresql://ada:p\n{SECRET}@{PLACE}",
    "with a quote": f'postgresql://ada:%zz"{SECRET}@{PLACE}',
    "as a parameter": f"postgresql://ada@{PLACE}?password={SECRET}",
    "as a parameter with an equals sign": f"postgresql://ada@{PLACE}?password={SECRET}=x",
    "as a parameter with an ampersand": f"postgresql://ada@{PLACE}?password=x&{SECRET}",
    "as a misspelt parameter": f"postgresql://ada@{PLACE}?passwrd={SECRET}",
    "of the key": f"postgresql://ada@{PLACE}?sslpassword={SECRET}",
    "of the key with a wrong percent sign": f"postgresql://ada@{PLACE}?sslpassword={SECRET}%zz",
    "in a connection string": f"host=127.0.0.1 port=1 password={SECRET}",
    "of the key in a connection string": f"host=127.0.0.1 port=1 sslpassword={SECRET}",
    "in a connection string with a space": f"host=127.0.0.1 port=1 password=p {SECRET}",
    "in a connection string without its quote": f"host=127.0.0.1 port=1 password='{SECRET}",
    "in a connection string after a quote": f"host=127.0.0.1 port=1 password='p'{SECRET}",
    "in a connection string with a colon": f"host=127.0.0.1 port=1 password: {SECRET}",
    "as a port": f"host=127.0.0.1 port={SECRET}",
    "for another database": f"mysql://ada:{SECRET}@{PLACE}",
    "for a library": f"postgresql+psycopg://ada:{SECRET}@{PLACE}",
    "without a scheme": f"ada:{SECRET}@{PLACE}",
    "in quotes": f"'postgresql://ada:{SECRET}@{PLACE}'",
}


@pytest.mark.attack("secrets")
@pytest.mark.parametrize("shape", URLS)
def test_an_error_about_a_url_shows_no_part_of_its_password(shape: str, attempts: Attempts) -> None:
    url = URLS[shape]

    async def open_database() -> None:
        database = Database(url)
        try:
            async with asyncio.timeout(20):
                await database.open()
        finally:
            await database.close()

    output: list[str] = []
    for attempt in (
        lambda: asyncio.run(open_database()),
        lambda: connect(url),
        lambda: worker_process._register_secrets(Config(database_url=url)),  # noqa: SLF001 - at the start
    ):
        try:
            attempt()
        except JobForgeError as error:
            output.append(f"{error} {error.hint} {error.detail}")
    assert output
    assert SECRET not in "".join(output)
    attempts(3)


@pytest.mark.attack("secrets")
@pytest.mark.parametrize("shape", URLS)
def test_config_show_shows_no_part_of_a_password(shape: str, tmp_path: Path) -> None:
    shell = InProcessTerminal(tmp_path, JOBFORGE_DATABASE_URL=URLS[shape])
    for form in ([], ["--json"]):
        output = shell.read("config", "show", *form)
        assert "database_url" in output
        # The port is not a credential.
        assert SECRET not in output or shape == "as a port"


SETTINGS = {
    "jwks_url": (
        f"https://ada:{SECRET}@auth.example.com/jwks?api_key={SECRET}&page=1",
        "https://ada:***@auth.example.com/jwks?api_key=***&page=***",
    ),
    "artifacts": (
        f"s3://AKIA:{SECRET}@bucket/path?region=eu&secret={SECRET}",
        "s3://AKIA:***@bucket/path?region=eu&secret=***",
    ),
    "egress_proxy": (
        f"http://ada:{SECRET}@proxy.example.com:3128",
        "http://ada:***@proxy.example.com:3128",
    ),
    "listen_url": (
        f"host=db user=ada sslpassword={SECRET} sslmode=require password='{SECRET} x'",
        "host=db user=ada sslpassword=*** sslmode=require password=***",
    ),
    "server": (f"https://ada:{SECRET}@jobs.example.com", "https://ada:***@jobs.example.com"),
}


@pytest.mark.attack("secrets")
@pytest.mark.parametrize("name", SETTINGS)
def test_config_show_hides_credentials_within_addresses(name: str, tmp_path: Path) -> None:
    given, expected = SETTINGS[name]
    shell = InProcessTerminal(tmp_path, **{f"JOBFORGE_{name.upper()}": given})
    shown = {row["name"]: row["value"] for row in shell.read_json("config", "show")}
    assert shown[name] == expected
    assert SECRET not in shell.read("config", "show")
