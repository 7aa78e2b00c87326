"""The settings of one process.

Each setting comes from the first of these sources that has it: a command-line option, the variable
JOBFORGE_<NAME>, `jobforge.toml` in the working directory (or `[tool.jobforge]` of its
pyproject.toml), `~/.config/jobforge/config.toml` (first the profile in JOBFORGE_PROFILE, then the
top level), the default. A secret can also be read from a file: database_url_file.
"""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, NamedTuple

from jobforge.config import parse
from jobforge.config.database_url import DatabaseUrl
from jobforge.errors import ConfigError, Json
from jobforge.process.environment import environment, is_withheld

JOB_USER_RANGE = (200_000, 265_535)
JOB_PROCESSES = 1024


@dataclass(frozen=True, slots=True)
class Config:
    """All settings; docs/configuration.md explains each."""

    # URLs may have passwords, so the repr omits them.
    database_url: str | None = field(default=None, repr=False)
    listen_url: str | None = field(default=None, repr=False)
    test_database_url: str | None = field(default=None, repr=False)
    behind_pooler: bool = False
    server: str | None = None
    key: str | None = field(default=None, repr=False)
    tenant: str | None = None
    data_dir: Path = Path(".jobforge")
    pg_bin: Path | None = None
    app: str | None = None
    queues: Mapping[str, int | None] = field(default_factory=dict)
    concurrency: int | None = None
    processes: int = 1
    build: str | None = None
    lease_s: float = 30
    heartbeat_s: float = 10
    poll_s: float = 1
    drain_s: float = 30
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    metrics_token: str | None = field(default=None, repr=False)
    metrics_public: bool = False
    log_level: Literal["debug", "info", "warning", "error", "critical"] = "info"
    log_format: Literal["json", "text"] | None = None
    secrets_dir: Path | None = None
    artifacts: str | None = None
    artifacts_access_key: str | None = None
    artifacts_secret_key: str | None = field(default=None, repr=False)
    artifact_limit: int = 100 * 1024 * 1024
    artifact_links: bool = False
    isolation_level: Literal["auto", "process", "user", "namespace", "strict"] = "auto"
    job_user_range: tuple[int, int] = JOB_USER_RANGE
    job_processes: int = JOB_PROCESSES
    job_environment: tuple[str, ...] = ()
    allowed_commands: tuple[str, ...] = ()
    commands: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    scheduler: bool = True
    history_days: int = 14
    dead_days: int = 90
    audit_days: int = 365
    connectors: bool = True
    egress_allow: tuple[str, ...] = ()
    egress_http: bool = False
    egress_proxy: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    secret_key_previous: str | None = field(default=None, repr=False)
    server_host: str = "127.0.0.1"
    server_port: int = 8700
    server_connections: int = 10
    client_connections: int = 1000
    client_connections_per_address: int = 100
    header_timeout_s: float = 15
    body_timeout_s: float = 30
    keep_alive_s: int = 5
    streams_per_key: int = 100
    public_url: str | None = None
    cors_origins: tuple[str, ...] = ()
    body_limit: int = 1024 * 1024
    batch_body_limit: int = 16 * 1024 * 1024
    request_rate: int = 1000
    tenant_request_rate: int = 2000
    access_log: bool = True
    session_s: float = 43_200
    session_secret: str | None = field(default=None, repr=False)
    jwt_algorithms: tuple[str, ...] = ()
    jwt_secret: str | None = field(default=None, repr=False)
    jwt_public_key: Path | None = None
    jwks_file: Path | None = None
    jwks_url: str | None = None
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    jwt_tenant_claim: str = "tenant_id"
    jwt_role_claim: str = "role"
    jwt_roles: Mapping[str, str] = field(
        default_factory=lambda: {"viewer": "viewer", "tenant_admin": "tenant_admin"}
    )

    @property
    def postgres_dir(self) -> Path:
        return self.data_dir / "pg"


def load(
    *,
    flags: Mapping[str, Json] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Config:
    """Load the settings. The arguments replace the process's own options, variables and folder."""
    variables = environment() if environ is None else environ
    found = _find(flags or {}, variables, folder or Path())
    settings = {name: _parse_setting(name, each) for name, each in found.items()}
    for name in {"database_url", "listen_url"} & settings.keys() if environ is None else ():
        settings[name] = DatabaseUrl(settings[name]).with_password()
    config = Config(**settings)
    _check_beats(config)
    _check_job_environment(config)
    _check_metrics(config)
    return config


def find_origins() -> dict[str, str]:
    """Return the source of each setting that is not a default: a variable or a file."""
    found = _find({}, environment(), Path())
    return {name: each.origin for name, each in found.items()}


def secret_files(config: Config) -> list[Path]:
    """Return existing files and folders with credentials that this process reads or may read."""
    urls = filter(None, (config.database_url, config.listen_url))
    found = [path for url in urls for path in DatabaseUrl(url).secret_files()]
    for layer in _layers({}, environment(), Path()):
        found += [_parse_setting(name, layer[name]) for name in _SECRET_FILES if name in layer]
        origins = {
            each.origin.partition(" [")[0] for name, each in layer.items() if _is_secret(name)
        }
        found += [Path(origin) for origin in origins if origin.endswith(".toml")]
    if config.secrets_dir is not None:
        found.append(config.secrets_dir)
    return [path.absolute() for path in dict.fromkeys(found) if path.exists()]


def _is_secret(name: str) -> bool:
    return name not in _SECRET_FILES and is_secret(name)


def find_misspelled(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return misspelled JOBFORGE_ variables with the names that were probably meant."""
    variables = environment() if environ is None else environ
    known = {f"JOBFORGE_{name.upper()}" for name in (*_PARSERS, *_SECRET_FILES, "profile")}
    # JOBFORGE_SECRET_<NAME> are secrets for jobs.
    unknown = [
        name
        for name in variables
        if name.startswith("JOBFORGE_") and not name.startswith("JOBFORGE_SECRET_")
    ]
    candidates = {
        name: difflib.get_close_matches(name, known, n=1, cutoff=0.9)
        for name in unknown
        if name not in known
    }
    return {name: close[0] for name, close in candidates.items() if close}


def is_secret(name: str) -> bool:
    """Return whether the setting must not be displayed."""
    return not next(each.repr for each in fields(Config) if each.name == name)


def wants_color(environ: Mapping[str, str] | None = None) -> bool:
    """Return whether terminal output may have colors, according to no-color.org."""
    found = environment() if environ is None else environ
    return not found.get("NO_COLOR") and found.get("TERM") != "dumb"


class _SettingValue(NamedTuple):
    value: Json
    origin: str


_Layer = dict[str, _SettingValue]


def _find(flags: Mapping[str, Json], environ: Mapping[str, str], folder: Path) -> _Layer:
    merged: _Layer = {}
    for layer in reversed(_layers(flags, environ, folder)):
        given = _with_secrets_from_files(layer)
        merged = {
            name: found for name, found in merged.items() if _ALTERNATIVES.get(name) not in given
        }
        merged |= given
    return merged


def _layers(flags: Mapping[str, Json], environ: Mapping[str, str], folder: Path) -> list[_Layer]:
    """Return the sources, the highest priority first."""
    return [
        _from_flags(flags),
        _from_environment(environ),
        _from_file(folder),
        *_from_user_file(environ),
    ]


def _from_flags(flags: Mapping[str, Json]) -> _Layer:
    return {
        name: _SettingValue(value, _FLAGS.get(name) or f"--{name.replace('_', '-')}")
        for name, value in flags.items()
        if value is not None
    }


def _from_environment(environ: Mapping[str, str]) -> _Layer:
    variables = {name: f"JOBFORGE_{name.upper()}" for name in (*_PARSERS, *_SECRET_FILES)}
    return {
        name: _SettingValue(environ[variable], variable)
        for name, variable in variables.items()
        if environ.get(variable)
    }


def _from_file(folder: Path) -> _Layer:
    settings_file = folder / "jobforge.toml"
    if settings_file.exists():
        return _read_table(str(settings_file), _toml(settings_file))
    project = folder / "pyproject.toml"
    if not project.exists():
        return {}
    return _read_table(str(project), _toml(project).get("tool", {}).get("jobforge", {}))


def _from_user_file(environ: Mapping[str, str]) -> list[_Layer]:
    """Return the selected profile, then the settings for all profiles."""
    path, profile = _user_file(environ), environ.get("JOBFORGE_PROFILE")
    try:
        table = _toml(path) if path is not None and path.is_file() else {}
    except PermissionError:  # HOME belongs to another user, as under sudo -E
        table = {}
    profiles = table.pop("profiles", {})
    if not isinstance(profiles, dict) or not all(isinstance(p, dict) for p in profiles.values()):
        raise ConfigError(f"{path}: profiles must be tables: [profiles.production]")
    if profile and profile not in profiles:
        raise ConfigError(
            f"JOBFORGE_PROFILE names {profile}, which is not in {path or 'a file of this user'}",
            field="profile",
            hint=f"there are: {', '.join(profiles)}" if profiles else "it has none",
        )
    chosen = _read_table(f"{path} [profiles.{profile}]", profiles[profile]) if profile else {}
    return [chosen, _read_table(str(path), table)]


def _user_file(environ: Mapping[str, str]) -> Path | None:
    config_home, home = environ.get("XDG_CONFIG_HOME", ""), environ.get("HOME")
    if Path(config_home).is_absolute():
        return Path(config_home, "jobforge", "config.toml")
    return Path(home, ".config", "jobforge", "config.toml") if home else None


def _toml(path: Path) -> dict[str, Json]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _read_table(origin: str, table: dict[str, Json]) -> _Layer:
    names = (*_PARSERS, *_SECRET_FILES)
    for name in table:
        if name not in names:
            raise ConfigError(
                f"{origin} sets {name}, which does not exist",
                field=name,
                hint=_did_you_mean(name) or f"the settings are: {', '.join(names)}",
            )
    return {name: _SettingValue(value, origin) for name, value in table.items()}


def _did_you_mean(name: str) -> str | None:
    near = difflib.get_close_matches(name.lower(), _PARSERS, n=1)
    return f"did you mean {near[0]}?" if near else None


def _with_secrets_from_files(layer: _Layer) -> _Layer:
    for name, target in _SECRET_FILES.items():
        if name not in layer:
            continue
        if target in layer:
            raise ConfigError(
                f"{layer[name].origin} sets {name}, and {layer[target].origin} {target}",
                field=name,
                hint="keep one of the two",
            )
        layer[target] = _SettingValue(_read_secret(name, layer.pop(name)), name)
    return layer


def _read_secret(name: str, found: _SettingValue) -> str:
    path = _parse_setting(name, found)
    try:
        return str(path.read_text(encoding="utf-8").strip())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError(
            f"{name} names {path}, which cannot be read: {reason}", field=name
        ) from error


def _parse_setting(name: str, found: _SettingValue) -> Json:
    parser = _PARSERS.get(name, parse.path)
    try:
        return parser(found.value)
    except parse.InvalidValue as wrong:
        raise ConfigError(f"{name} must be {wrong}", field=name, hint=_set_by(found)) from None


def _set_by(found: _SettingValue) -> str:
    return f"it is set by {found.origin}"


def _check_beats(config: Config) -> None:
    # A lease must allow for two heartbeats; otherwise one late heartbeat loses the job.
    if config.heartbeat_s * 2 > config.lease_s:
        raise ConfigError(
            f"heartbeat_s is {config.heartbeat_s:g}, more than half of lease_s, "
            f"which is {config.lease_s:g}",
            field="heartbeat_s",
            hint="a third of lease_s is a good value",
        )


def _check_job_environment(config: Config) -> None:
    for name in config.job_environment:
        if is_withheld(name):
            raise ConfigError(
                f"job_environment must not contain {name}: jobs never get credentials of JobForge",
                field="job_environment",
                hint="use ctx.secret() for secrets of jobs, or a variable with another name",
            )


def _check_metrics(config: Config) -> None:
    # Metrics reveal figures of all tenants: queues, definitions, numbers of failed jobs.
    if config.metrics_port is None or config.metrics_token or _is_loopback(config.metrics_host):
        return
    raise ConfigError(
        f"metrics_host is {config.metrics_host!r}, which other machines can reach, "
        "and metrics_token is not set",
        field="metrics_token",
        hint="set metrics_token to 32 characters or more, or metrics_host to 127.0.0.1",
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_DAY = 86_400

_PARSERS: Mapping[str, parse.Parser] = {
    "database_url": parse.text,
    "listen_url": parse.text,
    "test_database_url": parse.text,
    "behind_pooler": parse.boolean,
    "server": parse.text,
    "key": parse.text,
    "tenant": parse.text,
    "data_dir": parse.path,
    "pg_bin": parse.path,
    "app": parse.text,
    "queues": parse.queues,
    "concurrency": parse.whole(1, 100_000),
    "processes": parse.whole(1, 256),
    "build": parse.text,
    "lease_s": parse.seconds(1, 3600),
    "heartbeat_s": parse.seconds(0.1, _DAY),
    "poll_s": parse.seconds(0.01, 3600),
    "drain_s": parse.seconds(0, _DAY),
    "metrics_host": parse.text,
    "metrics_port": parse.whole(0, 65_535),
    "metrics_token": parse.secret,
    "metrics_public": parse.boolean,
    "log_level": parse.one_of("debug", "info", "warning", "error", "critical"),
    "log_format": parse.one_of("json", "text"),
    "secrets_dir": parse.path,
    "artifacts": parse.text,
    "artifacts_access_key": parse.text,
    "artifacts_secret_key": parse.text,
    "artifact_limit": parse.whole(1024**2, 2**31),
    "artifact_links": parse.boolean,
    "isolation_level": parse.one_of("auto", "process", "user", "namespace", "strict"),
    "job_user_range": parse.user_range,
    "job_processes": parse.whole(1, 4_194_304),
    "job_environment": parse.names(parse.VARIABLE_NAME),
    "allowed_commands": parse.names(parse.COMMAND_NAME),
    "commands": parse.tables,
    "scheduler": parse.boolean,
    "history_days": parse.whole(1, 3650),
    "dead_days": parse.whole(1, 3650),
    "audit_days": parse.whole(1, 3650),
    "connectors": parse.boolean,
    "egress_allow": parse.names(parse.ADDRESS),
    "egress_http": parse.boolean,
    "egress_proxy": parse.text,
    "secret_key": parse.secret,
    "secret_key_previous": parse.secret,
    "server_host": parse.text,
    "server_port": parse.whole(0, 65_535),
    "server_connections": parse.whole(1, 1000),
    "client_connections": parse.whole(10, 1_000_000),
    "client_connections_per_address": parse.whole(1, 1_000_000),
    "header_timeout_s": parse.seconds(0.1, 3600),
    "body_timeout_s": parse.seconds(0.1, 3600),
    "keep_alive_s": parse.whole(1, 3600),
    "streams_per_key": parse.whole(1, 1_000_000),
    "public_url": parse.origin,
    "cors_origins": parse.origins,
    "body_limit": parse.whole(1024, 2**30),
    "batch_body_limit": parse.whole(1024, 2**30),
    "request_rate": parse.whole(0, 1_000_000),
    "tenant_request_rate": parse.whole(0, 1_000_000),
    "access_log": parse.boolean,
    "session_s": parse.seconds(60, 365 * _DAY),
    "session_secret": parse.secret,
    "jwt_algorithms": parse.algorithms,
    "jwt_secret": parse.secret,
    "jwt_public_key": parse.path,
    "jwks_file": parse.path,
    "jwks_url": parse.text,
    "jwt_issuer": parse.text,
    "jwt_audience": parse.text,
    "jwt_tenant_claim": parse.text,
    "jwt_role_claim": parse.text,
    "jwt_roles": parse.roles,
}
_SECRET_FILES = {
    f"{name}_file": name
    for name in (
        *("database_url", "listen_url", "key", "session_secret", "jwt_secret"),
        *("secret_key", "secret_key_previous", "artifacts_secret_key", "metrics_token"),
    )
}
# Options whose names differ from their settings.
_FLAGS = {
    "drain_s": "--drain-timeout",
    "key": "--api-key",
    "server_host": "--host",
    "server_port": "--port",
}
# Alternative ways to reach the engine: setting one overrides the other from a lower source.
_ALTERNATIVES = {"database_url": "server", "server": "database_url"}
