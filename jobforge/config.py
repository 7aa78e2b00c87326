"""The settings of one process, and the only reader of the environment.

Each setting comes from the first of these that names it: a flag of the command line, the variable
JOBFORGE_<NAME>, `jobforge.toml` in the working folder (or `[tool.jobforge]` of its pyproject.toml),
the default.
"""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jobforge.errors import ConfigError, Json


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that can be set; `data_dir` is where `jobforge dev` keeps its things."""

    database_url: str | None = None
    data_dir: Path = Path(".jobforge")
    pg_bin: Path | None = None

    @property
    def postgres_dir(self) -> Path:
        return self.data_dir / "pg"


_PARSERS: Mapping[str, Callable[[str], Json]] = {
    "database_url": str,
    "data_dir": Path,
    "pg_bin": Path,
}


def load(
    *,
    flags: Mapping[str, str | None] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Config:
    """The settings as this process finds them; the arguments stand in for its surroundings."""
    layers = [
        {name: value for name, value in (flags or {}).items() if value is not None},
        _from_environment(os.environ if environ is None else environ),
        _from_file(folder or Path()),
    ]
    merged: dict[str, Json] = {}
    for layer in reversed(layers):
        merged |= layer
    return Config(**{name: _parsed(name, value) for name, value in merged.items()})


def masked(text: str) -> str:
    """The text with the passwords of the database URLs and connection strings in it hidden."""
    # Up to the last @: a password that should have been percent-encoded is one all the same.
    without = re.sub(r"(://[^/\s:@]*):\S*@", r"\1:***@", text)
    return re.sub(r"(\bpassword\s*=\s*)('[^']*'|[^\s&]+)", r"\1***", without, flags=re.IGNORECASE)


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    values = {name: environ.get(f"JOBFORGE_{name.upper()}") for name in _PARSERS}
    return {name: value for name, value in values.items() if value}


def _from_file(folder: Path) -> dict[str, Json]:
    own = folder / "jobforge.toml"
    if own.exists():
        return _known(own, _toml(own))
    project = folder / "pyproject.toml"
    if not project.exists():
        return {}
    return _known(project, _toml(project).get("tool", {}).get("jobforge", {}))


def _toml(path: Path) -> dict[str, Json]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _known(path: Path, table: dict[str, Json]) -> dict[str, Json]:
    for name in table:
        if name not in _PARSERS:
            raise ConfigError(
                f"{path} sets {name}, which does not exist",
                field=name,
                hint=f"the settings are: {', '.join(_PARSERS)}",
            )
    return table


def _parsed(name: str, value: Json) -> Json:
    if not isinstance(value, str):
        raise ConfigError(f"{name} must be a text, not {value!r}", field=name)
    return _PARSERS[name](value)
