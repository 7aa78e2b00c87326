"""The settings, with the type, the parser and the default of each."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from jobforge.config import parse
from jobforge.errors import Json

JOB_USER_RANGE = (200_000, 265_535)
JOB_PROCESSES = 1024
_LogLevel = Literal["debug", "info", "warning", "error", "critical"]
_LogFormat = Literal["json", "text"]
_IsolationLevel = Literal["auto", "process", "user", "namespace", "strict"]
_DAY = 86_400


def _setting(
    parser: parse.Parser,
    default: Json = None,
    *,
    factory: Callable[[], Json] | Any = MISSING,  # noqa: ANN401 - the type of MISSING is private
    is_secret: bool = False,
    has_file: bool = False,
) -> Any:  # noqa: ANN401 - as dataclasses.field
    """Declare a setting. With `has_file`, the setting NAME_file can name a file with its value."""
    return field(
        default=default if factory is MISSING else MISSING,
        default_factory=factory,
        repr=not is_secret,
        metadata={"parser": parser, "has_file": has_file},
    )


_secret = partial(_setting, is_secret=True, has_file=True)


@dataclass(frozen=True, slots=True)
class Config:
    """All settings; docs/configuration.md explains each."""

    # URLs may have passwords, so the repr omits them.
    database_url: str | None = _secret(parse.text)
    listen_url: str | None = _secret(parse.text)
    test_database_url: str | None = _setting(parse.text, is_secret=True)
    behind_pooler: bool = _setting(parse.boolean, default=False)
    server: str | None = _setting(parse.text)
    key: str | None = _secret(parse.text)
    tenant: str | None = _setting(parse.text)
    data_dir: Path = _setting(parse.path, Path(".jobforge"))
    pg_bin: Path | None = _setting(parse.path)
    app: str | None = _setting(parse.text)
    queues: Mapping[str, int | None] = _setting(parse.queues, factory=dict)
    concurrency: int | None = _setting(parse.whole(1, 100_000))
    processes: int = _setting(parse.whole(1, 256), 1)
    build: str | None = _setting(parse.text)
    lease_s: float = _setting(parse.seconds(1, 3600), 30)
    heartbeat_s: float = _setting(parse.seconds(0.1, _DAY), 10)
    poll_s: float = _setting(parse.seconds(0.01, 3600), 1)
    drain_s: float = _setting(parse.seconds(0, _DAY), 30)
    metrics_host: str = _setting(parse.text, "127.0.0.1")
    metrics_port: int | None = _setting(parse.whole(0, 65_535))
    metrics_token: str | None = _secret(parse.secret)
    metrics_public: bool = _setting(parse.boolean, default=False)
    log_level: _LogLevel = _setting(parse.one_of(*get_args(_LogLevel)), "info")
    log_format: _LogFormat | None = _setting(parse.one_of(*get_args(_LogFormat)))
    secrets_dir: Path | None = _setting(parse.path)
    artifacts: str | None = _setting(parse.text)
    artifacts_access_key: str | None = _setting(parse.text)
    artifacts_secret_key: str | None = _secret(parse.text)
    artifact_limit: int = _setting(parse.whole(1024**2, 2**31), 100 * 1024 * 1024)
    artifact_links: bool = _setting(parse.boolean, default=False)
    isolation_level: _IsolationLevel = _setting(parse.one_of(*get_args(_IsolationLevel)), "auto")
    job_user_range: tuple[int, int] = _setting(parse.user_range, JOB_USER_RANGE)
    job_processes: int = _setting(parse.whole(1, 4_194_304), JOB_PROCESSES)
    job_environment: tuple[str, ...] = _setting(parse.names(parse.VARIABLE_PATTERN), ())
    allowed_commands: tuple[str, ...] = _setting(parse.names(parse.COMMAND_NAME), ())
    commands: Mapping[str, Mapping[str, Json]] = _setting(parse.tables, factory=dict)
    scheduler: bool = _setting(parse.boolean, default=True)
    history_days: int = _setting(parse.whole(1, 3650), 14)
    dead_days: int = _setting(parse.whole(1, 3650), 90)
    audit_days: int = _setting(parse.whole(1, 3650), 365)
    connectors: bool = _setting(parse.boolean, default=True)
    egress_allow: tuple[str, ...] = _setting(parse.names(parse.ADDRESS), ())
    egress_http: bool = _setting(parse.boolean, default=False)
    egress_proxy: str | None = _setting(parse.text, is_secret=True)
    secret_key: str | None = _secret(parse.secret)
    secret_key_previous: str | None = _secret(parse.secret)
    server_host: str = _setting(parse.text, "127.0.0.1")
    server_port: int = _setting(parse.whole(0, 65_535), 8700)
    server_connections: int = _setting(parse.whole(1, 1000), 10)
    client_connections: int = _setting(parse.whole(10, 1_000_000), 1000)
    client_connections_per_address: int = _setting(parse.whole(1, 1_000_000), 100)
    header_timeout_s: float = _setting(parse.seconds(0.1, 3600), 15)
    body_timeout_s: float = _setting(parse.seconds(0.1, 3600), 30)
    keep_alive_s: int = _setting(parse.whole(1, 3600), 5)
    streams_per_key: int = _setting(parse.whole(1, 1_000_000), 100)
    public_url: str | None = _setting(parse.origin)
    cors_origins: tuple[str, ...] = _setting(parse.origins, ())
    body_limit: int = _setting(parse.whole(1024, 2**30), 1024 * 1024)
    batch_body_limit: int = _setting(parse.whole(1024, 2**30), 16 * 1024 * 1024)
    request_rate: int = _setting(parse.whole(0, 1_000_000), 1000)
    tenant_request_rate: int = _setting(parse.whole(0, 1_000_000), 2000)
    access_log: bool = _setting(parse.boolean, default=True)
    session_s: float = _setting(parse.seconds(60, 365 * _DAY), 43_200)
    session_secret: str | None = _secret(parse.secret)
    jwt_algorithms: tuple[str, ...] = _setting(parse.algorithms, ())
    jwt_secret: str | None = _secret(parse.secret)
    jwt_public_key: Path | None = _setting(parse.path)
    jwks_file: Path | None = _setting(parse.path)
    jwks_url: str | None = _setting(parse.text)
    jwt_issuer: str | None = _setting(parse.text)
    jwt_audience: str | None = _setting(parse.text)
    jwt_tenant_claim: str = _setting(parse.text, "tenant_id")
    jwt_role_claim: str = _setting(parse.text, "role")
    jwt_roles: Mapping[str, str] = _setting(
        parse.roles, factory=partial(dict, viewer="viewer", tenant_admin="tenant_admin")
    )

    @property
    def postgres_dir(self) -> Path:
        return self.data_dir / "pg"


PARSERS: Mapping[str, parse.Parser] = {
    each.name: each.metadata["parser"] for each in fields(Config)
}
SECRET_FILES = {
    f"{each.name}_file": each.name for each in fields(Config) if each.metadata["has_file"]
}


def is_secret(name: str) -> bool:
    """Return whether the setting must not be displayed."""
    return not next(each.repr for each in fields(Config) if each.name == name)
