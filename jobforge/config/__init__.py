"""The settings of one process.

Each setting comes from the first of these sources that has it: a command-line option, the variable
JOBFORGE_<NAME>, `jobforge.toml` in the working directory (or `[tool.jobforge]` of its
pyproject.toml), `~/.config/jobforge/config.toml` (first the profile in JOBFORGE_PROFILE, then the
top level), the default. A secret can also be read from a file: database_url_file.
"""

import difflib
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

from jobforge.config.database_url import DatabaseUrl
from jobforge.config.settings import PARSERS, SECRET_FILES, Config, is_secret
from jobforge.config.sources import find_settings, layers, parse_setting
from jobforge.errors import ConfigError, Json
from jobforge.process.environment import environment, is_withheld

__all__ = [
    "Config",
    "find_misspelled",
    "find_origins",
    "is_secret",
    "load",
    "secret_files",
    "wants_color",
]


def load(
    *,
    flags: Mapping[str, Json] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Config:
    """Load the settings. The arguments replace the process's own options, variables and folder."""
    variables = environment() if environ is None else environ
    found = find_settings(flags or {}, variables, folder or Path())
    settings = {name: parse_setting(name, each) for name, each in found.items()}
    for name in {"database_url", "listen_url"} & settings.keys() if environ is None else ():
        settings[name] = DatabaseUrl(settings[name]).with_password()
    config = Config(**settings)
    _check_beats(config)
    _check_job_environment(config)
    _check_metrics(config)
    return config


def find_origins() -> dict[str, str]:
    """Return the source of each setting that is not a default: a variable or a file."""
    found = find_settings({}, environment(), Path())
    return {name: each.origin for name, each in found.items()}


def secret_files(config: Config) -> list[Path]:
    """Return existing files and folders with credentials that this process reads or may read."""
    urls = filter(None, (config.database_url, config.listen_url))
    found = [path for url in urls for path in DatabaseUrl(url).secret_files()]
    for layer in layers({}, environment(), Path()):
        found += [parse_setting(name, layer[name]) for name in SECRET_FILES if name in layer]
        origins = {
            each.origin.partition(" [")[0]
            for name, each in layer.items()
            if name not in SECRET_FILES and is_secret(name)
        }
        found += [Path(origin) for origin in origins if origin.endswith(".toml")]
    if config.secrets_dir is not None:
        found.append(config.secrets_dir)
    return [path.absolute() for path in dict.fromkeys(found) if path.exists()]


def find_misspelled(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return misspelled JOBFORGE_ variables with the names that were probably meant."""
    variables = environment() if environ is None else environ
    known = {f"JOBFORGE_{name.upper()}" for name in (*PARSERS, *SECRET_FILES, "profile")}
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


def wants_color(environ: Mapping[str, str] | None = None) -> bool:
    """Return whether terminal output may have colors, according to no-color.org."""
    found = environment() if environ is None else environ
    return not found.get("NO_COLOR") and found.get("TERM") != "dumb"


def _check_beats(config: Config) -> None:
    # A lease must allow for two heartbeats; otherwise one late heartbeat loses the job.
    if config.heartbeat_s * 2 > config.lease_s:
        raise ConfigError(
            f"heartbeat_s is {config.heartbeat_s:g}, but must be at most half of lease_s, "
            f"which is {config.lease_s:g}",
            field="heartbeat_s",
            hint="Set heartbeat_s to a third of lease_s",
        )


def _check_job_environment(config: Config) -> None:
    for name in config.job_environment:
        if is_withheld(name.removesuffix("*")):
            raise ConfigError(
                f"job_environment must not contain {name}: jobs get no JobForge credentials",
                field="job_environment",
                hint="Use ctx.secret() for the secrets of jobs, or another variable name",
            )


def _check_metrics(config: Config) -> None:
    # Metrics reveal figures of all tenants: queues, definitions, numbers of failed jobs.
    if config.metrics_port is None or config.metrics_token or _is_loopback(config.metrics_host):
        return
    raise ConfigError(
        f"metrics_token is required because other machines can reach metrics_host "
        f"{config.metrics_host!r}",
        field="metrics_token",
        hint="Set metrics_token to 32 characters or more, or metrics_host to 127.0.0.1",
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
