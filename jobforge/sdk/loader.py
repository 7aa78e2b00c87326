"""Finds the app that a target names: `app.py`, `app.py:jf`, `package.module:jf`.

Imports the user's module the way `python app.py` would, without starting a thread or opening a
connection. Every failure is a ConfigError that names its location.
"""

import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from jobforge.errors import ConfigError
from jobforge.sdk.app import JobForge

_FORMS = "app.py, app.py:name, package.module or package.module:name"
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


@dataclass(frozen=True, slots=True)
class AppTarget:
    """A parsed target. `folder` must be on sys.path to import `module`."""

    text: str
    folder: Path
    module: str
    file: Path | None
    name: str | None

    @property
    def location(self) -> str:
        """The target without the app's name, as the user wrote it."""
        return self.text.rpartition(":")[0] if self.name else self.text


def load_app(target: str) -> JobForge:
    """Return the app that the target names. Loading it again returns the same object."""
    parsed = parse_target(target)
    return _find_app(_import_target(parsed), parsed)


def parse_target(target: str) -> AppTarget:
    """Parse a target without importing its module."""
    location, colon, name = target.rpartition(":")
    location, name = (location, name) if colon else (target, "")
    if not location or (colon and not name.isidentifier()):
        raise ConfigError(f"{target!r} is not a valid app", hint=f"Use {_FORMS}")
    if location.endswith(".py") or os.sep in location:
        return _parse_file(target, Path(location), name or None)
    if not _MODULE.fullmatch(location):
        raise ConfigError(f"{location!r} is not a valid module name", hint=f"Use {_FORMS}")
    return AppTarget(target, Path.cwd(), location, None, name or None)


def _parse_file(target: str, path: Path, name: str | None) -> AppTarget:
    if path.is_dir():
        raise ConfigError(f"{path} is a folder", hint=f"Specify a file in it: {path / 'app.py'}")
    if not path.is_file():
        raise ConfigError(f"File {path} not found", hint=_nearest_file(path))
    file = path.resolve()
    if not file.stem.isidentifier():
        raise ConfigError(f"Cannot import {path}: {file.stem!r} is not a valid module name")
    # Import a file inside a package as part of the package, so that relative imports work.
    folder, parts = file.parent, [file.stem]
    while (folder / "__init__.py").is_file():
        folder, parts = folder.parent, [folder.name, *parts]
    return AppTarget(target, folder, ".".join(parts), file, name)


def _nearest_file(path: Path) -> str | None:
    try:
        files = sorted(path.parent.glob("*.py"))
    except OSError:
        return None
    prefix = "" if path.parent == Path() else f"{path.parent}{os.sep}"
    return _did_you_mean(path.name, [file.name for file in files], prefix)


def _import_target(target: AppTarget) -> ModuleType:
    folder = str(target.folder)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    loaded = sys.modules.get(target.module)
    if loaded is not None and target.file and not _is_from(loaded, target.file):
        raise ConfigError(
            f"Cannot import {target.location}: a module {target.module!r} is already loaded",
            hint="Rename the file",
        )
    importlib.invalidate_caches()
    try:
        return loaded or _load_module(target)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _to_config_error(error, target) from error


def _load_module(target: AppTarget) -> ModuleType:
    if target.file is None or "." in target.module:
        return importlib.import_module(target.module)
    # Import by path: sys.path may contain another module with this name earlier.
    spec = importlib.util.spec_from_file_location(target.module, target.file)
    if spec is None or spec.loader is None:
        raise ImportError(f"No loader for {target.file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[target.module] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[target.module]
        raise
    return module


def _is_from(module: ModuleType, file: Path) -> bool:
    origin = getattr(module, "__file__", None)
    return origin is not None and Path(origin).resolve() == file


def _to_config_error(error: BaseException, target: AppTarget) -> ConfigError:
    if isinstance(error, ModuleNotFoundError) and _is_missing_target(error, target):
        message = f"Module {error.name!r} not found in {target.folder} or sys.path"
        return ConfigError(message, hint=_module_hint(target))
    summary = traceback.format_exception_only(error)[-1].strip()
    return ConfigError(
        f"Cannot import {target.location}: {summary} ({_find_error_line(error, target)})"
    )


def _is_missing_target(error: ModuleNotFoundError, target: AppTarget) -> bool:
    """Whether the target itself is missing, rather than a module that it imports."""
    missing = error.name or ""
    return target.file is None and (target.module + ".").startswith(missing + ".")


def _module_hint(target: AppTarget) -> str:
    file = Path(*target.module.split(".")).with_suffix(".py")
    return _nearest_file(file) or f"Use {_FORMS}"


def _find_error_line(error: BaseException, target: AppTarget) -> str:
    """Return the location of the error: the innermost frame in the user's own code."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(target.folder)]
    frame = (own or list(frames))[-1]
    return f"{frame.filename}, line {frame.lineno}"


def _find_app(module: ModuleType, target: AppTarget) -> JobForge:
    apps = dict(_apps(module))
    if target.name is not None:
        return _find_named_app(module, target, target.name, apps)
    distinct = {id(app): app for app in apps.values()}
    if len(distinct) == 1:
        return next(iter(distinct.values()))
    if not apps:
        raise ConfigError(
            f"No app found in {target.location}: it has no JobForge instance",
            hint=_suggest_other_module(module, target) or "Create an app: jf = JobForge()",
        )
    raise ConfigError(
        f"{target.location} has {len(distinct)} apps: {', '.join(apps)}",
        hint=f"Specify an app: {target.location}:{next(iter(apps))}",
    )


def _find_named_app(
    module: ModuleType, target: AppTarget, name: str, apps: dict[str, JobForge]
) -> JobForge:
    value = getattr(module, name, None)
    if isinstance(value, JobForge):
        return value
    fault = "not found" if value is None else f"has type {type(value).__name__}"
    hint = _did_you_mean(name, apps, f"{target.location}:", cutoff=0)
    raise ConfigError(f"No app found in {target.location}: '{name}' {fault}", hint=hint)


def _apps(module: ModuleType) -> Iterator[tuple[str, JobForge]]:
    return ((name, value) for name, value in vars(module).items() if isinstance(value, JobForge))


def _suggest_other_module(module: ModuleType, target: AppTarget) -> str | None:
    """Return a hint to an app in another imported file of the project."""
    for name, other in sorted(sys.modules.items()):
        origin = getattr(other, "__file__", None)
        if other is module or not origin or not Path(origin).is_relative_to(target.folder):
            continue
        for attribute, _ in _apps(other):
            return f"Did you mean {name}:{attribute}?"
    return None


def _did_you_mean(
    word: str, known: Iterable[str], prefix: str, *, cutoff: float = 0.6
) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415 - needed only for an error hint

    close = get_close_matches(word, known, n=1, cutoff=cutoff)
    return f"Did you mean {prefix}{close[0]}?" if close else None
