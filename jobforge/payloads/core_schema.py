"""pydantic-core schemas for plain types, identical to those that pydantic would generate.

With these, a function that takes strings, numbers and lists of them needs only pydantic's core.
Without pydantic, the process that jobs are forked from has a third less memory to copy
(docs/decisions/0020), and an app is imported in half the time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin

from pydantic_core import CoreSchema

_SchemaDict = dict[str, Any]

_NAMES: tuple[tuple[Any, str], ...] = (
    *((Any, "any"), (bool, "bool"), (float, "float"), (int, "int"), (str, "str")),
    *((None, "none"), (NoneType, "none")),
)


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """An object with these members and no others; members with a default are optional."""

    name: str
    members: Mapping[str, Any]  # their types
    defaults: Mapping[str, Any]


def plain_schema(kind: Any) -> CoreSchema | None:  # noqa: ANN401 - any type annotation
    """Return the schema of a plain type; None for a type that needs pydantic."""
    schema = (
        _object_schema(kind) if isinstance(kind, ObjectShape) else _scalar(kind) or _container(kind)
    )
    return cast("CoreSchema | None", schema)


def _scalar(kind: Any) -> _SchemaDict | None:  # noqa: ANN401 - any type annotation
    # Compare by identity: some type annotations cannot be compared.
    return next(({"type": name} for known, name in _NAMES if known is kind), None)


def _container(kind: Any) -> _SchemaDict | None:  # noqa: ANN401 - any type annotation
    parts = [plain_schema(part) for part in get_args(kind)]
    if None in parts:
        return None
    match get_origin(kind), parts:
        case origin, [item] if origin is list:
            return {"type": "list", "items_schema": item}
        case origin, [key, value] if origin is dict:
            return {"type": "dict", "keys_schema": key, "values_schema": value}
        case origin, [given, {"type": "none"}] if origin in {Union, UnionType}:
            return {"type": "nullable", "schema": given}
    return None


def _object_schema(table: ObjectShape) -> _SchemaDict | None:
    fields: _SchemaDict = {}
    for name, kind in table.members.items():
        schema = plain_schema(kind)
        if schema is None:
            return None
        required = name not in table.defaults
        fields[name] = {"type": "typed-dict-field", "schema": schema, "required": required}
    config = {"title": table.name, "extra_fields_behavior": "forbid"}
    return {"type": "typed-dict", "cls_name": table.name, "fields": fields, "config": config}
