"""Types that JSON has itself, as pydantic's core checks them: the schemas that pydantic would make.

With these, a function that takes texts, numbers and lists of them needs no pydantic but its core.
A process that jobs are forked from has a third less memory to copy then (docs/decisions/0020), and
an app is imported in half the time.
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
    """An object with these members and no others; those that have a default may be missing."""

    name: str
    members: Mapping[str, Any]  # their types
    defaults: Mapping[str, Any]


def plain_schema(kind: Any) -> CoreSchema | None:  # noqa: ANN401 - a type as hints spell it
    """None for what pydantic has to be asked about."""
    made = (
        _object_schema(kind) if isinstance(kind, ObjectShape) else _scalar(kind) or _container(kind)
    )
    return cast("CoreSchema | None", made)


def _scalar(kind: Any) -> _SchemaDict | None:  # noqa: ANN401 - as above
    # By identity: not all that may stand in a hint can be compared.
    return next(({"type": name} for known, name in _NAMES if known is kind), None)


def _container(kind: Any) -> _SchemaDict | None:  # noqa: ANN401 - as above
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
