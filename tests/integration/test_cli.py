"""The command line, as a user's shell runs it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Database, fresh_database
from integration.terminal import InProcessTerminal, Terminal, environment
from typer.main import get_command

import jobforge.cli
from jobforge.embedded import Embedded, PostgresServer

NOWHERE = "postgresql://ada:secret@127.0.0.1:1/app"

LOADED_BY_HELP = """
import sys
from jobforge.cli import app
app(["--help"], standalone_mode=False)
heavy = ("psycopg", "pydantic", "rich", "orjson", "textual")
print(*(name for name in heavy if name in sys.modules))
"""


def _run(
    *arguments: str, folder: Path | None = None, url: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run in this process, which takes a tenth of the time of a new one."""
    variables = {"JOBFORGE_DATABASE_URL": url} if url else {}
    return InProcessTerminal(folder or Path(), **variables).run(*arguments)


def _start(*arguments: str, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return Terminal(folder or Path()).run(*arguments)


@pytest.fixture
def blank(server: PostgresServer) -> Iterator[Database]:
    with fresh_database(server, template="template1") as fresh:
        yield fresh


def test_help_loads_nothing_heavy() -> None:
    result = subprocess.run(
        [sys.executable, "-c", LOADED_BY_HELP],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert result.stdout.splitlines()[-1] == ""


def test_no_list_of_commands_truncates_a_summary(tmp_path: Path) -> None:
    shell = InProcessTerminal(tmp_path)
    listed = [
        shell.read(*words, "--help").partition("Commands:")[2]
        for words in ([], *([name] for name in jobforge.cli.SUMMARIES))
    ]
    assert any(listed)
    assert [line for line in "".join(listed).splitlines() if line.endswith("...")] == []


def test_the_help_lists_each_command_with_its_first_sentence() -> None:
    commands: Any = get_command(jobforge.cli.app)
    own = {name: command.get_short_help_str(100) for name, command in commands.commands.items()}
    assert own == jobforge.cli.SUMMARIES


@pytest.mark.parametrize(
    "url", [NOWHERE, "postgresql://ada:secret@[bad", "postgresql://ada:secret@h/db?no_such=1"]
)
def test_no_error_shows_the_password(url: str) -> None:
    result = _run("db", "check", "--database-url", url)
    assert result.returncode in {2, 7}
    assert "secret" not in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_a_traceback_is_shown_with_debug_only() -> None:
    assert "Traceback" in _start("--debug", "db", "check", "--database-url", NOWHERE).stderr


def test_without_a_database_the_error_lists_the_ways_to_specify_one(tmp_path: Path) -> None:
    result = _run("db", "status", folder=tmp_path)
    assert result.returncode == 2
    for way in ("--database-url", "JOBFORGE_DATABASE_URL", "jobforge dev"):
        assert way in result.stderr


def test_check_fails_before_and_passes_after_migrate(blank: Database) -> None:
    url = blank.url
    assert _run("db", "check", url=url).returncode == 1
    dry = _run("db", "migrate", "--dry-run", url=url)
    assert _run("db", "check", url=url).returncode == 1
    applied = _run("db", "migrate", url=url)
    assert (applied.returncode, applied.stdout) == (0, dry.stdout)
    assert "roles.sql" in applied.stdout
    assert _run("db", "check", url=url).returncode == 0
    assert _run("db", "migrate", url=url).stdout == ""


@pytest.mark.parametrize("command", ["jobs list", "worker", "enqueue mail", "top --once"])
def test_a_database_without_the_schema_gets_an_install_hint(
    blank: Database, tmp_path: Path, command: str
) -> None:
    app = "from jobforge import JobForge\njf = JobForge()\n@jf.job\ndef mail() -> None: ...\n"
    (tmp_path / "app.py").write_text(app)
    shell = Terminal(tmp_path, JOBFORGE_DATABASE_URL=blank.url, JOBFORGE_TENANT="acme")
    result = shell.run(*command.split())
    assert result.returncode == 1
    assert "jobforge db migrate" in result.stderr


@pytest.mark.parametrize("command", ["db check", "keys list", "scheduler", "server"])
def test_an_invalid_url_is_a_usage_error(command: str) -> None:
    result = _start(*command.split(), "--database-url", "not a URL")
    assert result.returncode == 2
    assert "hint: postgresql://user@host:port/database" in result.stderr


def test_an_error_about_missing_rights_names_roles_and_not_api_keys(database: Database) -> None:
    url = database.url_as("client_login")
    by_slug = _run("jobs", "list", "--tenant", "acme", url=url)
    assert by_slug.returncode == 4
    assert "Use the tenant's ID" in by_slug.stderr
    refused = _run("keys", "list", url=url)
    assert refused.returncode == 4
    assert "jobforge_admin (operators)" in refused.stderr


def test_an_invalid_value_is_reported_for_the_flag_that_was_used() -> None:
    assert "Check --port" in _run("server", "--port", "many", url=NOWHERE).stderr


def test_url_prints_the_database_for_other_programs(tmp_path: Path) -> None:
    (tmp_path / "jobforge.toml").write_text(f'database_url = "{NOWHERE}"')
    assert _run("db", "url", folder=tmp_path).stdout == NOWHERE + "\n"


def test_supabase_files_are_written_once(tmp_path: Path) -> None:
    first = _run("db", "sql", "--supabase", str(tmp_path))
    assert sorted(first.stdout.splitlines()) == sorted(map(str, tmp_path.iterdir()))
    assert _run("db", "sql", "--supabase", str(tmp_path)).stdout == ""


def test_the_isolation_check_passes_on_a_migrated_database(
    database: Database, tmp_path: Path
) -> None:
    script = tmp_path / "rls_test.sql"
    script.write_text(_run("db", "sql", "--rls-test").stdout)
    database.run_file(script)


def test_psql_opens_the_specified_database(database: Database) -> None:
    query = "select current_database()"
    result = _start("psql", "--database-url", database.url, "-X", "-A", "-t", "-c", query)
    assert result.stdout.strip() == database.name


def test_dev_serves_until_a_signal_stops_it(folder: Path) -> None:
    with _dev(folder) as dev:
        _read_until(dev, "Press Ctrl-C to stop.")
        assert _run("db", "check", folder=folder).returncode == 0
        answer = _start("psql", "-X", "-A", "-t", "-c", "select 40 + 2", folder=folder)
        assert answer.stdout.strip() == "42"
        dev.send_signal(signal.SIGTERM)
        assert dev.wait(timeout=60) == 0
    assert Embedded(folder / ".jobforge" / "pg").running() is None


def test_a_second_dev_joins_and_leaves_the_first_one_running(folder: Path) -> None:
    with _dev(folder) as first:
        _read_until(first, "Press Ctrl-C to stop.")
        with _dev(folder) as second:
            _read_until(second, "Postgres was already running.")
            second.send_signal(signal.SIGINT)
            assert second.wait(timeout=60) == 0
        assert Embedded(folder / ".jobforge" / "pg").running() is not None
        first.send_signal(signal.SIGINT)
        assert first.wait(timeout=60) == 0


def _dev(folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "jobforge", "dev"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(),
    )


def _read_until(process: "subprocess.Popen[str]", words: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return
    pytest.fail(f"dev ended before it said: {words}")


def test_effective_settings_are_shown_with_their_origin_and_without_secrets(
    tmp_path: Path,
) -> None:
    (tmp_path / "jobforge.toml").write_text(
        'queues = ["mail:3"]\nsession_secret = "%s"' % ("s" * 40)
    )
    shell = InProcessTerminal(
        tmp_path, JOBFORGE_DATABASE_URL="postgresql://ada:hunter2@h/app", JOBFORGE_LEASE_S="60"
    )
    shown = {row["name"]: row for row in shell.read_json("config", "show")}
    assert shown["database_url"]["value"] == "postgresql://ada:***@h/app"
    assert shown["session_secret"] == {
        "name": "session_secret",
        "value": "***",
        "origin": "jobforge.toml",
    }
    assert shown["queues"]["value"] == {"mail": 3}
    assert (shown["lease_s"]["value"], shown["lease_s"]["origin"]) == (60.0, "JOBFORGE_LEASE_S")
    assert shown["poll_s"]["origin"] == "default"
    assert "JOBFORGE_LEASE_S" not in shell.read("config", "show")
    assert "JOBFORGE_LEASE_S" in shell.read("config", "show", "--origin")


def test_the_user_file_and_its_profile_are_shown_as_origins(tmp_path: Path) -> None:
    (tmp_path / "jobforge").mkdir()
    file = tmp_path / "jobforge" / "config.toml"
    file.write_text('tenant = "acme"\n[profiles.far]\nserver = "https://jobs.example.com"\n')
    variables = {"XDG_CONFIG_HOME": str(tmp_path), "JOBFORGE_PROFILE": "far"}
    shown = Terminal(tmp_path, **variables).read_json("config", "show")
    origins = {each["name"]: each["origin"] for each in shown}
    assert (origins["tenant"], origins["server"]) == (str(file), f"{file} [profiles.far]")


@pytest.mark.parametrize("command", ["worker", "server", "scheduler"])
def test_a_misspelled_variable_is_reported_at_startup(tmp_path: Path, command: str) -> None:
    (tmp_path / "app.py").write_text("from jobforge import JobForge\njf = JobForge()\n")
    variables = {"JOBFORGE_DATABASE_URL": NOWHERE, "JOBFORGE_LOG_LEVLE": "debug"}
    output = Terminal(tmp_path, **variables).run(command).stderr
    assert "unknown setting JOBFORGE_LOG_LEVLE; did you mean JOBFORGE_LOG_LEVEL?" in output
