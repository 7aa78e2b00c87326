"""The settings, their types and defaults, and the parser of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal, NamedTuple

from jobforge.config import parse
from jobforge.errors import ConfigError, Json

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


def is_secret(name: str) -> bool:
    """Return whether the setting must not be displayed."""
    return not next(each.repr for each in fields(Config) if each.name == name)


class SettingValue(NamedTuple):
    value: Json
    origin: str


def parse_setting(name: str, found: SettingValue) -> Json:
    parser = PARSERS.get(name, parse.path)
    try:
        return parser(found.value)
    except parse.InvalidValue as wrong:
        raise ConfigError(f"{name} must be {wrong}", field=name, hint=_set_by(found)) from None


def _set_by(found: SettingValue) -> str:
    return f"Check {found.origin}"


_DAY = 86_400

PARSERS: Mapping[str, parse.Parser] = {
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
SECRET_FILES = {
    f"{name}_file": name
    for name in (
        *("database_url", "listen_url", "key", "session_secret", "jwt_secret"),
        *("secret_key", "secret_key_previous", "artifacts_secret_key", "metrics_token"),
    )
}
