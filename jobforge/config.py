"""The settings of one process, and the only reader of the environment.

Each setting comes from the first of these that names it: a flag of the command line, the variable
JOBFORGE_<NAME>, `jobforge.toml` in the working folder (or `[tool.jobforge]` of its pyproject.toml),
the default. A URL may also be named by a file that holds it: database_url_file.
"""

import difflib
import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from jobforge.errors import ConfigError, Json


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that can be set; docs/configuration.md explains each."""

    # URLs hold passwords: they stay out of the repr.
    database_url: str | None = field(default=None, repr=False)
    listen_url: str | None = field(default=None, repr=False)
    test_database_url: str | None = field(default=None, repr=False)
    behind_pooler: bool = False
    tenant: str | None = None
    data_dir: Path = Path(".jobforge")
    pg_bin: Path | None = None
    app: str | None = None
    queues: Mapping[str, int | None] = field(default_factory=dict)
    concurrency: int | None = None
    processes: int = 1
    lease_s: float = 30
    heartbeat_s: float = 10
    poll_s: float = 1
    drain_s: float = 30
    log_level: Literal["debug", "info", "warning", "error", "critical"] = "info"
    log_format: Literal["json", "text"] | None = None
    secrets_dir: Path | None = None
    job_environment: tuple[str, ...] = ()
    allowed_commands: tuple[str, ...] = ()
    commands: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)

    @property
    def postgres_dir(self) -> Path:
        return self.data_dir / "pg"


def load(
    *,
    flags: Mapping[str, Json] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Config:
    """The settings as this process finds them; the arguments stand in for its surroundings."""
    layers = [
        _from_flags(flags or {}),
        _from_environment(os.environ if environ is None else environ),
        _from_file(folder or Path()),
    ]
    merged: dict[str, _Found] = {}
    for layer in reversed(layers):
        merged |= _with_urls_from_files(layer)
    config = Config(**{name: _parsed(name, found) for name, found in merged.items()})
    _check_beats(config)
    return config


def environment() -> Mapping[str, str]:
    """The variables of this process, for those whose names are not settings."""
    return os.environ


def wants_colour(environ: Mapping[str, str] | None = None) -> bool:
    """Whether a terminal may be given colours, as no-color.org has it."""
    found = os.environ if environ is None else environ
    return not found.get("NO_COLOR") and found.get("TERM") != "dumb"


def masked(text: str) -> str:
    """The text with the passwords of the database URLs and connection strings in it hidden."""
    # Up to the last @: a password that should have been percent-encoded is one all the same.
    without = re.sub(r"(://[^/\s:@]*):\S*@", r"\1:***@", text)
    return re.sub(r"(\bpassword\s*=\s*)('[^']*'|[^\s&]+)", r"\1***", without, flags=re.IGNORECASE)


class _Found(NamedTuple):
    value: Json
    origin: str


_Layer = dict[str, _Found]
_Parser = Callable[[Json], Json]


class _Wrong(ValueError):
    """What a value should have been."""


def _from_flags(flags: Mapping[str, Json]) -> _Layer:
    return {
        name: _Found(value, f"--{name.replace('_', '-')}")
        for name, value in flags.items()
        if value is not None
    }


def _from_environment(environ: Mapping[str, str]) -> _Layer:
    variables = {name: f"JOBFORGE_{name.upper()}" for name in (*_PARSERS, *_URL_FILES)}
    return {
        name: _Found(environ[variable], variable)
        for name, variable in variables.items()
        if environ.get(variable)
    }


def _from_file(folder: Path) -> _Layer:
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


def _known(path: Path, table: dict[str, Json]) -> _Layer:
    names = (*_PARSERS, *_URL_FILES)
    for name in table:
        if name not in names:
            raise ConfigError(
                f"{path} sets {name}, which does not exist",
                field=name,
                hint=_did_you_mean(name) or f"the settings are: {', '.join(names)}",
            )
    return {name: _Found(value, str(path)) for name, value in table.items()}


def _did_you_mean(name: str) -> str | None:
    near = difflib.get_close_matches(name.lower(), _PARSERS, n=1)
    return f"did you mean {near[0]}?" if near else None


def _with_urls_from_files(layer: _Layer) -> _Layer:
    for name, target in _URL_FILES.items():
        if name not in layer:
            continue
        if target in layer:
            raise ConfigError(
                f"{layer[name].origin} sets {name}, and {layer[target].origin} {target}",
                field=name,
                hint="keep one of the two",
            )
        layer[target] = _Found(_read_url(name, layer.pop(name)), name)
    return layer


def _read_url(name: str, found: _Found) -> str:
    path = _parsed(name, found)
    try:
        return str(path.read_text(encoding="utf-8").strip())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError(
            f"{name} names {path}, which cannot be read: {reason}", field=name
        ) from error


def _parsed(name: str, found: _Found) -> Json:
    parser = _PARSERS.get(name, _path)
    try:
        return parser(found.value)
    except _Wrong as wrong:
        raise ConfigError(f"{name} must be {wrong}", field=name, hint=_set_by(found)) from None


def _set_by(found: _Found) -> str:
    return f"it is set by {found.origin}"


def _check_beats(config: Config) -> None:
    # Two beats must fit into a lease, or one that is late costs the job.
    if config.heartbeat_s * 2 > config.lease_s:
        raise ConfigError(
            f"heartbeat_s is {config.heartbeat_s:g}, more than half of lease_s, "
            f"which is {config.lease_s:g}",
            field="heartbeat_s",
            hint="a third of lease_s is a good value",
        )


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise _Wrong(f"a text, not {value!r}")
    return value


def _path(value: Json) -> Path:
    return value if isinstance(value, Path) else Path(_text(value))


def _boolean(value: Json) -> bool:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in _BOOLEANS:
        raise _Wrong(f"true or false, not {value!r}")
    return _BOOLEANS[word]


_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def _whole(low: int, high: int) -> _Parser:
    def parse(value: Json) -> int:
        wrong = _Wrong(f"a whole number from {low:,} to {high:,}, not {value!r}")
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise wrong
        try:
            number = int(value)
        except ValueError:
            raise wrong from None
        if not low <= number <= high:
            raise wrong
        return number

    return parse


def _seconds(low: float, high: float) -> _Parser:
    def parse(value: Json) -> float:
        wrong = _Wrong(f"a number of seconds from {low:g} to {high:g}, not {value!r}")
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise wrong
        try:
            number = float(value)
        except ValueError:
            raise wrong from None
        if not math.isfinite(number) or not low <= number <= high:
            raise wrong
        return number

    return parse


def _one_of(*words: str) -> _Parser:
    def parse(value: Json) -> str:
        if not isinstance(value, str) or value.lower() not in words:
            raise _Wrong(f"one of {', '.join(words)}, not {value!r}")
        return value.lower()

    return parse


def _names(pattern: str) -> _Parser:
    def parse(value: Json) -> tuple[str, ...]:
        names = _items(value)
        for name in names:
            if not re.fullmatch(pattern, name):
                raise _Wrong(f"a list of names, and {name!r} is none")
        return tuple(names)

    return parse


def _items(value: Json) -> list[str]:
    """A list of TOML, or a text with commas, as a flag or a variable has it."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise _Wrong(f"a list of texts, not {value!r}")
    return [item.strip() for item in value if item.strip()]


def _queues(value: Json) -> dict[str, int | None]:
    queues: dict[str, int | None] = {}
    for item in _items(value):
        # Names of queues may hold colons themselves.
        name, _, slots = item.rpartition(":") if re.search(r":\d+\Z", item) else (item, "", None)
        if not re.fullmatch(_QUEUE_NAME, name):
            raise _Wrong(f"queues with their slots, as in mail:10,default:4, and not {item!r}")
        if name in queues:
            raise _Wrong(f"different queues, and {name} is there twice")
        queues[name] = None if slots is None else _whole(1, 100_000)(slots)
    return queues


def _tables(value: Json) -> dict[str, dict[str, Json]]:
    if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
        raise _Wrong("tables of jobforge.toml, as in [commands.thumbnail]")
    return value


_QUEUE_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,49}"
_COMMAND_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}"
_VARIABLE_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_DAY = 86_400

_PARSERS: Mapping[str, _Parser] = {
    "database_url": _text,
    "listen_url": _text,
    "test_database_url": _text,
    "behind_pooler": _boolean,
    "tenant": _text,
    "data_dir": _path,
    "pg_bin": _path,
    "app": _text,
    "queues": _queues,
    "concurrency": _whole(1, 100_000),
    "processes": _whole(1, 256),
    "lease_s": _seconds(1, _DAY),
    "heartbeat_s": _seconds(0.1, _DAY),
    "poll_s": _seconds(0.01, 3600),
    "drain_s": _seconds(0, _DAY),
    "log_level": _one_of("debug", "info", "warning", "error", "critical"),
    "log_format": _one_of("json", "text"),
    "secrets_dir": _path,
    "job_environment": _names(_VARIABLE_NAME),
    "allowed_commands": _names(_COMMAND_NAME),
    "commands": _tables,
}
_URL_FILES = {"database_url_file": "database_url", "listen_url_file": "listen_url"}
