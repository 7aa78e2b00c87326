"""The API as type checkers see it: mypy and basedpyright agree with good.py and bad.py."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent

Check = Callable[[str], dict[int, str]]


def _mypy(file: str) -> dict[int, str]:
    said = _run("mypy", "--strict", "--config-file=", str(FOLDER / file))
    found = re.findall(r"^\S*?:(\d+): error: (.*)", said, re.MULTILINE)
    return {int(line): message for line, message in found}


def _basedpyright(file: str) -> dict[int, str]:
    said = json.loads(_run("basedpyright", "--outputjson", "--level", "error", str(FOLDER / file)))
    errors = [each for each in said["generalDiagnostics"] if each["severity"] == "error"]
    return {each["range"]["start"]["line"] + 1: each["message"] for each in errors}


def _run(module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


checkers = pytest.mark.parametrize("check", [_mypy, _basedpyright], ids=["mypy", "basedpyright"])


@checkers
def test_good_calls_are_accepted_with_the_right_types(check: Check) -> None:
    assert check("good.py") == {}


@checkers
def test_each_bad_call_is_refused_on_its_line(check: Check) -> None:
    lines = (FOLDER / "bad.py").read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# error")}
    assert set(check("bad.py")) == marked
