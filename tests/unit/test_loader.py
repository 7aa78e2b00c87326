"""Finding the app that a target names."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from jobforge import JobForge
from jobforge.errors import ConfigError
from jobforge.sdk.loader import load_app, parse_target

ONE = "from jobforge import JobForge\njf = JobForge()\n"
TWO = ONE + "other = JobForge()\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty project as the working folder; modules imported from it are unloaded afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "app", raising=False)  # an example of another test
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def _write(name: str, source: str = ONE) -> None:
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(source), encoding="utf-8")


@pytest.mark.parametrize(
    "target", ["app.py", "./app.py", "app.py:jf", "app", "app:jf", "sub/jobs.py", "sub.jobs:jf"]
)
def test_every_form_finds_the_app(target: str) -> None:
    _write("app.py")
    _write("sub/jobs.py")
    assert isinstance(load_app(target), JobForge)


def test_an_absolute_path_finds_the_app(project: Path) -> None:
    _write("elsewhere/app.py")
    assert isinstance(load_app(str(project / "elsewhere" / "app.py")), JobForge)


def test_loading_again_returns_the_same_app() -> None:
    _write("app.py")
    assert load_app("app.py") is load_app("app.py:jf") is load_app("app")


def test_one_app_under_two_names_is_one_app() -> None:
    _write("app.py", ONE + "also = jf\n")
    assert isinstance(load_app("app.py"), JobForge)


def test_of_several_apps_the_named_one_is_loaded() -> None:
    _write("app.py", TWO)
    assert load_app("app.py:other") is not load_app("app.py:jf")


def test_a_file_can_import_modules_next_to_it() -> None:
    _write("sub/jobs.py")
    _write("sub/app.py", "from jobs import jf\n")
    assert isinstance(load_app("sub/app.py"), JobForge)


def test_a_file_of_a_package_can_import_relatively() -> None:
    _write("shop/__init__.py", "")
    _write("shop/jobs.py")
    _write("shop/app.py", "from .jobs import jf\n")
    assert isinstance(load_app("shop/app.py"), JobForge)
    assert parse_target("shop/app.py").module == "shop.app"


def test_loading_starts_nothing() -> None:
    _write("app.py")
    before = threading.active_count()
    load_app("app.py")
    assert threading.active_count() == before


def _refusal(target: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_app(target)
    return caught.value


def test_the_error_for_a_module_without_an_app_names_what_was_expected() -> None:
    _write("app.py", "jf = None\n")
    error = _refusal("app.py")
    assert error.message == "No app found in app.py: it has no JobForge instance"
    assert error.hint


def test_the_error_names_an_app_in_an_imported_module() -> None:
    _write("jobs.py")
    _write("app.py", "import jobs\n")
    assert _refusal("app.py").hint == "Did you mean jobs:jf?"


def test_the_error_lists_several_apps() -> None:
    _write("app.py", TWO)
    error = _refusal("app.py")
    assert "2 apps: jf, other" in error.message
    assert error.hint == "Specify an app: app.py:jf"


def test_the_error_for_a_wrong_name_suggests_the_right_one() -> None:
    _write("app.py")
    error = _refusal("app.py:fj")
    assert "'fj' not found" in error.message
    assert error.hint == "Did you mean app.py:jf?"


def test_the_error_for_another_object_names_its_type() -> None:
    _write("app.py", ONE + "number = 3\n")
    assert "int" in _refusal("app.py:number").message


def test_the_error_for_a_missing_file_suggests_the_nearest() -> None:
    _write("sub/app.py")
    error = _refusal("sub/apps.py")
    assert error.message == "File sub/apps.py not found"
    assert error.hint == "Did you mean sub/app.py?"


def test_a_folder_is_not_an_app(project: Path) -> None:
    (project / "sub").mkdir()
    assert "sub is a folder" in _refusal("./sub").message


@pytest.mark.parametrize("target", ["", ":", ":jf", "app.py:", "app.py:1x", "a-b", "a..b", "a b"])
def test_an_invalid_target_is_refused(target: str) -> None:
    assert _refusal(target).hint


def test_a_missing_module_is_reported() -> None:
    _write("shop/app.py")
    error = _refusal("shop.ap")
    assert "Module 'shop.ap' not found" in error.message
    assert error.hint == "Did you mean shop/app.py?"


def test_a_file_whose_name_is_not_a_module_name_is_refused() -> None:
    _write("my-app.py")
    assert "my-app" in _refusal("my-app.py").message


def test_a_file_with_the_name_of_a_loaded_module_is_refused() -> None:
    _write("json.py")
    assert "a module 'json' is already loaded" in _refusal("json.py").message


def test_a_syntax_error_is_reported_with_its_position(project: Path) -> None:
    _write("app.py", "jf = (\n")
    message = _refusal("app.py").message
    assert "SyntaxError" in message
    assert f"{project / 'app.py'}, line 1" in message


def test_an_error_on_import_is_reported_with_the_line_of_the_users_code(project: Path) -> None:
    _write("app.py", "import json\n\njson.loads('{')\n")
    message = _refusal("app.py").message
    assert "JSONDecodeError" in message
    assert f"{project / 'app.py'}, line 3" in message


def test_a_module_that_an_app_fails_to_import_is_not_reported_as_the_app() -> None:
    _write("app.py", "import no_such_thing\n")
    message = _refusal("app").message
    assert "Cannot import app" in message
    assert "no_such_thing" in message


def test_an_app_that_exits_on_import_is_an_error() -> None:
    _write("app.py", "raise SystemExit(3)\n")
    assert "SystemExit: 3" in _refusal("app.py").message


def test_a_fixed_app_loads_after_a_failure() -> None:
    _write("app.py", "jf = 1 / 0\n")
    _refusal("app.py")
    _write("app.py", ONE)
    assert isinstance(load_app("app.py"), JobForge)
