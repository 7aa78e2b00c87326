"""Settings: their sources, precedence and validation."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from jobforge.config import Config, find_misspelled, load, secret_files, wants_color
from jobforge.errors import ConfigError
from jobforge.process.hardening import mask_passwords


def _settle(
    folder: Path, *, flag: str | None = None, variable: str | None = None, file: str | None = None
) -> Config:
    if file:
        (folder / "jobforge.toml").write_text(f'database_url = "{file}"')
    environ = {"JOBFORGE_DATABASE_URL": variable} if variable else {}
    return load(flags={"database_url": flag}, environ=environ, folder=folder)


def test_a_flag_wins_over_everything(tmp_path: Path) -> None:
    config = _settle(tmp_path, flag="flag", variable="variable", file="file")
    assert config.database_url == "flag"


def test_a_variable_wins_over_the_file(tmp_path: Path) -> None:
    assert _settle(tmp_path, variable="variable", file="file").database_url == "variable"


def test_the_file_wins_over_the_default(tmp_path: Path) -> None:
    assert _settle(tmp_path, file="file").database_url == "file"


def test_an_empty_variable_sets_nothing(tmp_path: Path) -> None:
    assert _settle(tmp_path, variable="", file="file").database_url == "file"


def test_nothing_set_is_the_default(tmp_path: Path) -> None:
    assert _settle(tmp_path) == Config()
    assert Config().postgres_dir == Path(".jobforge/pg")


def test_a_server_overrides_a_database_from_a_source_of_lower_precedence(
    tmp_path: Path,
) -> None:
    (tmp_path / "jobforge.toml").write_text('database_url = "file"')
    environ = {"JOBFORGE_SERVER": "https://jobs.example.com"}
    config = load(environ=environ, folder=tmp_path)
    assert (config.server, config.database_url) == ("https://jobs.example.com", None)
    config = load(flags={"database_url": "flag"}, environ=environ, folder=tmp_path)
    assert (config.server, config.database_url) == (None, "flag")


def test_the_key_may_be_in_a_file_and_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("jf_secret\n")
    config = load(environ={"JOBFORGE_KEY_FILE": str(tmp_path / "key")}, folder=tmp_path)
    assert config.key == "jf_secret"
    assert "jf_secret" not in repr(config)


def test_pyproject_is_used_without_a_jobforge_toml(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.jobforge]\ndata_dir = "state"')
    assert load(environ={}, folder=tmp_path).data_dir == Path("state")


def test_jobforge_toml_hides_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.jobforge]\ndata_dir = "state"')
    assert _settle(tmp_path, file="file").data_dir == Path(".jobforge")


USERS = """
tenant = "acme"
database_url = "mine"
[profiles.production]
server = "https://jobs.example.com"
key = "jf_any"
[profiles.staging]
database_url = "staging"
"""


def _of_user(folder: Path, **variables: str) -> Config:
    home = folder / "home"
    (home / ".config" / "jobforge").mkdir(parents=True, exist_ok=True)
    (home / ".config" / "jobforge" / "config.toml").write_text(USERS)
    return load(environ={"HOME": str(home), **variables}, folder=folder)


def test_the_users_file_overrides_only_the_defaults(tmp_path: Path) -> None:
    assert _of_user(tmp_path).database_url == "mine"
    (tmp_path / "jobforge.toml").write_text('database_url = "file"')
    config = _of_user(tmp_path)
    assert (config.database_url, config.tenant) == ("file", "acme")


def test_a_profile_overrides_the_top_level_of_its_file(tmp_path: Path) -> None:
    config = _of_user(tmp_path, JOBFORGE_PROFILE="staging")
    assert (config.database_url, config.tenant) == ("staging", "acme")
    config = _of_user(tmp_path, JOBFORGE_PROFILE="production")
    assert (config.server, config.database_url) == ("https://jobs.example.com", None)


def test_an_unknown_profile_is_refused_with_the_existing_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _of_user(tmp_path, JOBFORGE_PROFILE="prod")
    assert caught.value.hint == "Choose one of: production, staging"
    with pytest.raises(ConfigError, match="not found in a configuration file of this user"):
        load(environ={"JOBFORGE_PROFILE": "prod"}, folder=tmp_path)


def test_the_folder_for_settings_can_be_changed(tmp_path: Path) -> None:
    (tmp_path / "xdg" / "jobforge").mkdir(parents=True)
    (tmp_path / "xdg" / "jobforge" / "config.toml").write_text('tenant = "umbrella"')
    assert _of_user(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "xdg")).tenant == "umbrella"
    assert _of_user(tmp_path, XDG_CONFIG_HOME="relative").tenant == "acme"


@pytest.mark.parametrize("text", ["profiles = 3", "[profiles]\na = 1", "tenat = 'x'"])
def test_an_invalid_user_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "jobforge").mkdir()
    (tmp_path / "jobforge" / "config.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"config\.toml"):
        load(environ={"XDG_CONFIG_HOME": str(tmp_path)}, folder=tmp_path)


def test_variables_with_misspelled_setting_names_are_found() -> None:
    environ = {
        "JOBFORGE_DATABSE_URL": "x",
        "JOBFORGE_TENANT": "x",
        "JOBFORGE_PROFILE": "x",
        "JOBFORGE_SECRET_KEYS": "x",
        "JOBFORGE_OF_SOMEBODY_ELSE": "x",
        "DATABASE_URL": "x",
    }
    assert find_misspelled(environ) == {"JOBFORGE_DATABSE_URL": "JOBFORGE_DATABASE_URL"}


@pytest.mark.parametrize(
    ("text", "field"),
    [("databse_url = 'x'", "databse_url"), ("data_dir = 3", "data_dir"), ("no toml", None)],
)
def test_an_invalid_file_is_refused_and_the_field_named(
    tmp_path: Path, text: str, field: str | None
) -> None:
    (tmp_path / "jobforge.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(environ={}, folder=tmp_path)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("postgresql://ada:secret@db/app", "postgresql://ada:***@db/app"),
        ("postgresql://ada:s:cr/t@db/app", "postgresql://ada:***@db/app"),
        (
            "postgresql://ada@db/app?password=secret&port=1",
            "postgresql://ada@db/app?password=***&port=1",
        ),
        ("host=db password=secret user=ada", "host=db password=*** user=ada"),
        ("host=db password='se cret'", "host=db password=***"),
        ("postgresql://ada@db/app", "postgresql://ada@db/app"),
    ],
)
def test_a_password_is_never_shown(text: str, hidden: str) -> None:
    assert mask_passwords(text) == hidden


def _from_file(folder: Path, text: str) -> Config:
    (folder / "jobforge.toml").write_text(text)
    return load(environ={}, folder=folder)


def _from_variable(folder: Path, name: str, value: str) -> Any:
    return getattr(load(environ={f"JOBFORGE_{name.upper()}": value}, folder=folder), name)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("listen_url", "postgresql://db", "postgresql://db"),
        ("behind_pooler", "yes", True),
        ("behind_pooler", "0", False),
        ("tenant", "acme", "acme"),
        ("app", "app.py:jf", "app.py:jf"),
        ("queues", "mail:10, default:4", {"mail": 10, "default": 4}),
        ("queues", "mail,a:b:3,c:d", {"mail": None, "a:b": 3, "c:d": None}),
        ("concurrency", "8", 8),
        ("processes", "4", 4),
        ("lease_s", "60", 60),
        ("heartbeat_s", "2.5", 2.5),
        ("poll_s", "0.5", 0.5),
        ("drain_s", "0", 0),
        ("log_level", "DEBUG", "debug"),
        ("log_format", "json", "json"),
        ("secrets_dir", "/run/secrets", Path("/run/secrets")),
        ("job_environment", "AWS_REGION, TZ,", ("AWS_REGION", "TZ")),
        ("job_environment", "AWS_*,*", ("AWS_*", "*")),
        ("allowed_commands", "thumbnail", ("thumbnail",)),
    ],
)
def test_a_variable_is_parsed_as_the_type_of_its_setting(
    tmp_path: Path, name: str, text: str, value: Any
) -> None:
    assert _from_variable(tmp_path, name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("behind_pooler", "true", True),
        ("queues", '"mail:10"', {"mail": 10}),
        ("queues", '["mail:10", "default"]', {"mail": 10, "default": None}),
        ("processes", "4", 4),
        ("lease_s", "60", 60),
        ("poll_s", "0.5", 0.5),
        ("job_environment", '["AWS_REGION", "TZ"]', ("AWS_REGION", "TZ")),
        (
            "commands",
            '{ thumbnail = { argv = ["convert"] } }',
            {"thumbnail": {"argv": ["convert"]}},
        ),
    ],
)
def test_the_file_may_use_toml_types(tmp_path: Path, name: str, text: str, value: Any) -> None:
    assert getattr(_from_file(tmp_path, f"{name} = {text}"), name) == value


def test_commands_are_tables_of_the_file(tmp_path: Path) -> None:
    config = _from_file(tmp_path, '[commands.thumbnail]\nargv = ["convert", "{source}"]')
    assert config.commands == {"thumbnail": {"argv": ["convert", "{source}"]}}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("behind_pooler", "perhaps"),
        ("queues", "mail:0"),
        ("queues", "mail:x y"),
        ("queues", "mail:1,mail:2"),
        ("queues", "mail:999999999"),
        ("concurrency", "0"),
        ("processes", "1.5"),
        ("processes", "257"),
        ("processes", "two"),
        ("lease_s", "0"),
        ("lease_s", "nan"),
        ("lease_s", "inf"),
        ("lease_s", "7200"),
        ("poll_s", "-1"),
        ("log_level", "loud"),
        ("log_format", "xml"),
        ("job_environment", "A=B"),
        ("job_environment", "*_KEY"),
        ("job_environment", "AWS_**"),
        ("allowed_commands", "rm -rf"),
        ("commands", "thumbnail"),
        ("heartbeat_s", "20"),
    ],
)
def test_an_invalid_value_is_refused_and_the_field_named(
    tmp_path: Path, name: str, text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        _from_variable(tmp_path, name, text)
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("behind_pooler = 1", "behind_pooler"),
        ("processes = true", "processes"),
        ("lease_s = true", "lease_s"),
        ("lease_s = []", "lease_s"),
        ("queues = 3", "queues"),
        ("queues = [3]", "queues"),
        ("[queues]\nmail = 3", "queues"),
        ("tenant = 3", "tenant"),
        ("commands = ['x']", "commands"),
        ("[commands]\nthumbnail = 'x'", "commands"),
        ("database_url_file = 3", "database_url_file"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(tmp_path: Path, text: str, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _from_file(tmp_path, text)
    assert caught.value.field == field


def test_the_hint_names_the_source_of_an_invalid_value(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _from_variable(tmp_path, "processes", "two")
    assert "JOBFORGE_PROCESSES" in (caught.value.hint or "")


def test_a_misspelled_name_is_refused_with_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _from_file(tmp_path, "databse_url = 'x'")
    assert caught.value.hint == "Did you mean database_url?"


def test_an_unknown_name_is_refused_with_all_names(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _from_file(tmp_path, "xyzzy = 'x'")
    assert all(field.name in (caught.value.hint or "") for field in fields(Config))


def test_the_url_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("postgresql://ada:secret@db\n")
    environ = {"JOBFORGE_DATABASE_URL_FILE": str(tmp_path / "url")}
    assert load(environ=environ, folder=tmp_path).database_url == "postgresql://ada:secret@db"


def test_a_flag_wins_over_a_variable_that_names_a_file(tmp_path: Path) -> None:
    environ = {"JOBFORGE_DATABASE_URL_FILE": str(tmp_path / "none")}
    (tmp_path / "none").write_text("file")
    config = load(flags={"database_url": "flag"}, environ=environ, folder=tmp_path)
    assert config.database_url == "flag"


def test_a_variable_that_names_a_file_wins_over_the_settings_file(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("variable")
    (tmp_path / "jobforge.toml").write_text("database_url = 'file'")
    environ = {"JOBFORGE_DATABASE_URL_FILE": str(tmp_path / "url")}
    assert load(environ=environ, folder=tmp_path).database_url == "variable"


def test_a_url_and_a_url_file_in_one_source_are_refused(tmp_path: Path) -> None:
    environ = {"JOBFORGE_DATABASE_URL": "x", "JOBFORGE_DATABASE_URL_FILE": "y"}
    with pytest.raises(ConfigError) as caught:
        load(environ=environ, folder=tmp_path)
    assert caught.value.field == "database_url_file"


def test_an_unreadable_url_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file") as caught:
        load(environ={"JOBFORGE_LISTEN_URL_FILE": str(tmp_path / "none")}, folder=tmp_path)
    assert caught.value.field == "listen_url_file"


def test_printed_settings_do_not_reveal_a_password() -> None:
    config = Config(database_url="hunter2", listen_url="hunter2", test_database_url="hunter2")
    assert "hunter2" not in repr(config)


def test_the_documentation_lists_every_setting() -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    missing = [field.name for field in fields(Config) if f"`{field.name}`" not in page]
    assert missing == []


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colors_are_omitted_when_the_environment_says_so(
    environ: dict[str, str], *, wanted: bool
) -> None:
    assert wants_color(environ) == wanted


@pytest.mark.parametrize(
    "name",
    [
        *("JOBFORGE_DATABASE_URL", "JOBFORGE_SECRET_API", "PGPASSWORD", "PGPASSFILE"),
        *("JOBFORGE_*", "JOBFORGE_SECRET_*", "PG*"),
    ],
)
@pytest.mark.attack("credentials")
def test_credentials_cannot_be_passed_on_to_jobs(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"job_environment must not contain {name}")):
        load(environ={"JOBFORGE_JOB_ENVIRONMENT": f"LANG,{name}"}, folder=tmp_path)


def test_files_with_credentials_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = {
        "JOBFORGE_SECRET_KEY_FILE": tmp_path / "key",
        "JOBFORGE_SECRETS_DIR": tmp_path / "secrets",
        "PGPASSFILE": tmp_path / "passwords",
    }
    (tmp_path / "secrets").mkdir()
    (tmp_path / "key").write_text("k" * 64)
    (tmp_path / "passwords").touch()
    (tmp_path / "jobforge.toml").write_text('database_url = "postgresql://ada@db/app"')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, path in named.items():
        monkeypatch.setenv(name, str(path))
    assert set(secret_files(load())) == {*named.values(), tmp_path / "jobforge.toml"}


def test_a_config_file_without_credentials_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobforge.toml").write_text('app = "app.py"\nlog_level = "debug"')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert secret_files(load()) == []


@pytest.mark.attack("credentials")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "", "metrics.example.com"])  # noqa: S104 - refused
def test_metrics_are_not_open_to_other_machines_without_a_token(tmp_path: Path, host: str) -> None:
    (tmp_path / "jobforge.toml").write_text(f'metrics_host = "{host}"')
    with pytest.raises(ConfigError) as refused:
        load(flags={"metrics_port": 9100}, environ={}, folder=tmp_path)
    assert (refused.value.code, refused.value.field) == ("config_error", "metrics_token")
    token = {"JOBFORGE_METRICS_TOKEN": "t" * 32}
    assert load(flags={"metrics_port": 9100}, environ=token, folder=tmp_path).metrics_host == host
    assert load(environ={}, folder=tmp_path).metrics_port is None


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_metrics_of_this_machine_need_no_token(tmp_path: Path, host: str) -> None:
    environ = {"JOBFORGE_METRICS_HOST": host, "JOBFORGE_METRICS_PORT": "9100"}
    assert load(environ=environ, folder=tmp_path).metrics_token is None
