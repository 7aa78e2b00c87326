"""Where a setting comes from."""

from pathlib import Path

import pytest

from jobforge.config import Config, load, masked
from jobforge.errors import ConfigError


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


def test_pyproject_serves_when_there_is_no_jobforge_toml(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.jobforge]\ndata_dir = "state"')
    assert load(environ={}, folder=tmp_path).data_dir == Path("state")


def test_jobforge_toml_hides_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.jobforge]\ndata_dir = "state"')
    assert _settle(tmp_path, file="file").data_dir == Path(".jobforge")


@pytest.mark.parametrize(
    ("text", "field"),
    [("databse_url = 'x'", "databse_url"), ("data_dir = 3", "data_dir"), ("no toml", None)],
)
def test_a_wrong_file_is_refused_and_the_field_named(
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
    assert masked(text) == hidden
