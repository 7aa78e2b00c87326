"""Finds types that do not survive a round trip through JSON, from their pydantic-core schemas."""

from collections.abc import Iterator, Mapping
from typing import Any

_Schema = Mapping[str, Any]


def hides_secrets(schema: Any) -> bool:  # noqa: ANN401 - a pydantic-core schema
    """Return whether a part is serialized as asterisks, as pydantic does with secrets."""
    return any(_is_secret(part) for part in _parts(schema))


def find_loss(schema: Any) -> str | None:  # noqa: ANN401 - a pydantic-core schema
    """Describe a part that is serialized but not validated, or vice versa; None if all are fine."""
    return next((loss for part in _parts(schema) if (loss := _loss(part))), None)


def _parts(schema: Any) -> Iterator[_Schema]:  # noqa: ANN401 - any part of a pydantic-core schema
    """Yield the schema and its parts, except the parts of one with a custom serializer."""
    if isinstance(schema, list | tuple):
        for part in schema:
            yield from _parts(part)
    elif isinstance(schema, dict):
        yield schema
        if not _has_writer(schema):
            for name, part in schema.items():
                if name not in _NOT_SCHEMAS:
                    yield from _parts(part)


# Keys whose values come from the user, and may look like a schema.
_NOT_SCHEMAS = {"metadata", "default", "expected", "members"}


def _has_writer(schema: _Schema) -> bool:
    return schema.get("serialization", {}).get("function") is not None


def _is_secret(schema: _Schema) -> bool:
    writer = schema.get("serialization", {}).get("function")
    name, module = getattr(writer, "__name__", ""), getattr(writer, "__module__", "")
    return module == "pydantic.types" and name.startswith("_serialize_secret")


def _loss(schema: _Schema) -> str | None:
    match schema:
        case {"type": "dataclass-field", "init": False, "name": name}:
            if not schema.get("serialization_exclude"):
                return (
                    f"{name} is a field(init=False), which the constructor does not accept:"
                    " remove its default, and set it in __post_init__"
                )
        case {"type": "dataclass-field", "init_only": True, "name": name}:
            if schema["schema"]["type"] != "default":
                return f"{name} is an InitVar, which is not an attribute of the object to send"
        case {"type": "dict", "keys_schema": keys}:
            if not _is_key(keys):
                return "dict keys must be strings, because JSON has no other keys"
    return None


def _is_key(schema: _Schema) -> bool:
    """Return whether a value that is serialized as a key of an object can be read from it."""
    if _has_writer(schema):
        return True
    match schema:
        case {"type": "literal", "expected": values}:
            return all(isinstance(value, str | bool) for value in values)
        case {"type": "enum", "members": members}:
            return all(isinstance(each, int) or isinstance(each.value, str) for each in members)
        case {"type": "union", "choices": choices}:
            return all(_is_key(choice) for choice in choices)
    return schema["type"] not in _NO_KEYS


_NO_KEYS = {
    *("none", "nullable", "tuple", "call", "named-tuple", "list", "set", "frozenset", "dict"),
    *("dataclass", "model", "typed-dict"),
}
