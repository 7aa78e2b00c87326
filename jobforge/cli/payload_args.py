"""A payload as it is typed: `name=text`, `name:=json`, and `@file` with a JSON object in it."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from jobforge.errors import Invalid, Json

_FORMS = "the forms are name=text, name:=json and @file (- is stdin)"


def parse_payload(arguments: Sequence[str]) -> dict[str, Json]:
    """What comes later goes before what came earlier, so a file can be amended."""
    payload: dict[str, Json] = {}
    for argument in arguments:
        payload |= _read_file(argument[1:]) if argument.startswith("@") else _parse_member(argument)
    return payload


def parse_json(text: str, name: str) -> Json:
    """Invalid names what was not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{name} is not JSON: {error}", field=name, hint=_FORMS) from error


def _parse_member(argument: str) -> dict[str, Json]:
    name, equals, value = argument.partition("=")
    is_json = name.endswith(":")
    name = name.removesuffix(":")
    if not name or not equals:
        raise Invalid(f"{argument!r} is no parameter", field="payload", hint=_FORMS)
    return {name: parse_json(value, name) if is_json else value}


def _read_file(path: str) -> dict[str, Json]:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise Invalid(f"cannot read {path or 'a file without a name'}: {why}") from error
    value = parse_json(text, path)
    if not isinstance(value, dict):
        raise Invalid(f"{path} holds no JSON object", field="payload")
    return value
