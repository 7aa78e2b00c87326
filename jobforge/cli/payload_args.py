"""Parse a payload from arguments: `name=text`, `name:=json`, `@file` with a JSON object."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from jobforge.errors import Invalid, Json

_FORMS = "Use name=text, name:=json or @file (@- reads stdin)"


def parse_payload(arguments: Sequence[str]) -> dict[str, Json]:
    """Merge the arguments into one object. Later arguments override earlier ones."""
    payload: dict[str, Json] = {}
    for argument in arguments:
        payload |= _read_file(argument[1:]) if argument.startswith("@") else _parse_member(argument)
    return payload


def parse_json(text: str, name: str) -> Json:
    """Parse JSON. Raises Invalid, naming the argument or file."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{name} is not valid JSON: {error}", field=name, hint=_FORMS) from error


def _parse_member(argument: str) -> dict[str, Json]:
    name, equals, value = argument.partition("=")
    is_json = name.endswith(":")
    name = name.removesuffix(":")
    if not name or not equals:
        raise Invalid(f"Invalid argument {argument!r}", field="payload", hint=_FORMS)
    return {name: parse_json(value, name) if is_json else value}


def _read_file(path: str) -> dict[str, Json]:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise Invalid(f"Cannot read {path or 'a file without a name'}: {why}") from error
    value = parse_json(text, path)
    if not isinstance(value, dict):
        raise Invalid(f"{path} must contain a JSON object", field="payload")
    return value
