"""The sources of settings: options, variables and files, and which source wins."""

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from jobforge.config import parse
from jobforge.config.settings import PARSERS, SECRET_FILES
from jobforge.errors import ConfigError, Json


class SettingValue(NamedTuple):
    value: Json
    origin: str


Layer = dict[str, SettingValue]

# Options whose names differ from their settings.
_FLAGS = {
    "drain_s": "--drain-timeout",
    "key": "--api-key",
    "server_host": "--host",
    "server_port": "--port",
}
# Alternative ways to reach the engine: setting one overrides the other from a lower source.
_ALTERNATIVES = {"database_url": "server", "server": "database_url"}


def find_settings(flags: Mapping[str, Json], environ: Mapping[str, str], folder: Path) -> Layer:
    merged: Layer = {}
    for layer in reversed(layers(flags, environ, folder)):
        given = _with_secrets_from_files(layer)
        merged = {
            name: found for name, found in merged.items() if _ALTERNATIVES.get(name) not in given
        }
        merged |= given
    return merged


def parse_setting(name: str, found: SettingValue) -> Json:
    parser = PARSERS.get(name, parse.path)
    try:
        return parser(found.value)
    except parse.InvalidValue as wrong:
        hint = f"Check {found.origin}"
        raise ConfigError(f"{name} must be {wrong}", field=name, hint=hint) from None


def layers(flags: Mapping[str, Json], environ: Mapping[str, str], folder: Path) -> list[Layer]:
    """Return the sources, the highest priority first."""
    return [
        _from_flags(flags),
        _from_environment(environ),
        _from_file(folder),
        *_from_user_file(environ),
    ]


def _from_flags(flags: Mapping[str, Json]) -> Layer:
    return {
        name: SettingValue(value, _FLAGS.get(name) or f"--{name.replace('_', '-')}")
        for name, value in flags.items()
        if value is not None
    }


def _from_environment(environ: Mapping[str, str]) -> Layer:
    variables = {name: f"JOBFORGE_{name.upper()}" for name in (*PARSERS, *SECRET_FILES)}
    return {
        name: SettingValue(environ[variable], variable)
        for name, variable in variables.items()
        if environ.get(variable)
    }


def _from_file(folder: Path) -> Layer:
    settings_file = folder / "jobforge.toml"
    if settings_file.exists():
        return _read_table(str(settings_file), _toml(settings_file))
    project = folder / "pyproject.toml"
    if not project.exists():
        return {}
    return _read_table(str(project), _toml(project).get("tool", {}).get("jobforge", {}))


def _from_user_file(environ: Mapping[str, str]) -> list[Layer]:
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
            f"Profile '{profile}' (JOBFORGE_PROFILE) not found in"
            f" {path or 'a configuration file of this user'}",
            field="profile",
            hint=f"Choose one of: {', '.join(profiles)}"
            if profiles
            else "Add a table [profiles.…] to the file",
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
        raise ConfigError(f"Cannot read {path}: {error}") from error


def _read_table(origin: str, table: dict[str, Json]) -> Layer:
    names = (*PARSERS, *SECRET_FILES)
    for name in table:
        if name not in names:
            raise ConfigError(
                f"Unknown setting '{name}' in {origin}",
                field=name,
                hint=_did_you_mean(name) or f"Use one of: {', '.join(names)}",
            )
    return {name: SettingValue(value, origin) for name, value in table.items()}


def _did_you_mean(name: str) -> str | None:
    near = difflib.get_close_matches(name.lower(), PARSERS, n=1)
    return f"Did you mean {near[0]}?" if near else None


def _with_secrets_from_files(layer: Layer) -> Layer:
    for name, target in SECRET_FILES.items():
        if name not in layer:
            continue
        if target in layer:
            raise ConfigError(
                f"{name} and {target} can't be used together:"
                f" {layer[name].origin} and {layer[target].origin} set them",
                field=name,
                hint="Keep one of the two",
            )
        layer[target] = SettingValue(_read_secret(name, layer.pop(name)), name)
    return layer


def _read_secret(name: str, found: SettingValue) -> str:
    path = parse_setting(name, found)
    try:
        return str(path.read_text(encoding="utf-8").strip())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"Cannot read {name} {path}: {reason}", field=name) from error
