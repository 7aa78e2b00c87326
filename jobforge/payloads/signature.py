"""A handler's signature as JSON: converts parameters to pydantic validation of payloads.

A handler either has plain named parameters, and the payload is an object with one member for each;
or it has a single BaseModel parameter, and the payload is that model. Omitted arguments are not in
the payload, so the function's own defaults apply when the job runs.
"""

import contextlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, get_type_hints

from pydantic_core import (
    CoreConfig,
    PydanticSerializationError,
    SchemaSerializer,
    SchemaValidator,
    ValidationError,
)

from jobforge.errors import Invalid, InvalidPayload, Json
from jobforge.payloads.core_schema import ObjectShape, plain_schema
from jobforge.payloads.round_trip import find_loss, hides_secrets
from jobforge.types import jsonb

if TYPE_CHECKING:  # imported on demand, because plain types do not need it
    from pydantic import TypeAdapter

Arguments = dict[str, Any]

_MOST_ERRORS = 20  # reported per payload


class Shape:
    """A type whose values are written as JSON and read back."""

    def __init__(self, kind: Any) -> None:  # noqa: ANN401 - any type annotation, or an ObjectShape
        self._kind = kind
        plain = plain_schema(kind)
        validator = self._adapter.validator if plain is None else SchemaValidator(plain)
        self._validate = validator.validate_python
        self._validate_json = validator.validate_json
        # The default would silently write NaN as null; "constants" keeps it, and encode rejects it.
        config = CoreConfig(ser_json_inf_nan="constants")
        self._schema = self._adapter.core_schema if plain is None else plain
        self._serialize = SchemaSerializer(self._schema, config).to_python

    @cached_property
    def hides_secrets(self) -> bool:
        return hides_secrets(self._schema)

    @cached_property
    def loss(self) -> str | None:
        """Why a value of this type would not survive a round trip through JSON, if it would not."""
        return find_loss(self._schema)

    @cached_property
    def _adapter(self) -> "TypeAdapter[Any]":
        from pydantic import TypeAdapter  # noqa: PLC0415 - only for types that need it

        kind = self._kind
        return TypeAdapter(_typed_dict(kind) if isinstance(kind, ObjectShape) else kind)

    def check(self, value: Any) -> Any:  # noqa: ANN401 - any argument
        """Return the validated value; raises ValidationError."""
        return self._validate(value)

    def read(self, document: Json) -> Any:  # noqa: ANN401 - a value of the type
        try:
            return self._validate(document)
        except ValidationError:
            # A strict type accepts a string for a UUID or a date only from JSON.
            return self._validate_json(jsonb.encode(document, "payload"))

    def read_json(self, text: str) -> Any:  # noqa: ANN401 - a value of the type
        try:
            return self._validate_json(text)
        except ValidationError:
            # Integers with thousands of digits, and strings for types that are native to JSON.
            with contextlib.suppress(ValidationError):
                return self._validate(jsonb.decode(text))
            raise

    def write(self, value: Any) -> Json:  # noqa: ANN401 - any value
        """Return the value as JSON; raises Invalid if that is impossible."""
        try:
            # round_trip: omit computed fields.
            return self._serialize(
                value, mode="json", by_alias=True, round_trip=True, warnings=False
            )
        except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
            raise Invalid(f"cannot be written as JSON: {error}") from error

    def schema(self) -> dict[str, Json]:
        from pydantic.errors import PydanticUserError  # noqa: PLC0415 - only for types that need it

        try:
            return self._adapter.json_schema()
        except PydanticUserError as error:
            raise Invalid(f"The types have no JSON Schema: {_first_line(error)}") from error


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a handler, except its context."""

    names: tuple[str, ...]
    shape: Shape
    model: str | None  # the only parameter, if it is the whole payload
    positional: int  # number of leading names that can be passed by position

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
        """Return the arguments by name, as Python would bind them."""
        if len(args) > self.positional:
            raise InvalidPayload(
                f"Expected at most {self.positional} positional arguments, got {len(args)}"
            )
        named = dict(zip(self.names, args, strict=False))
        for name in named.keys() & kwargs.keys():
            raise InvalidPayload(f"{name} was given twice", field=name)
        return {**named, **kwargs}

    def build_payload(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Json]:
        """Return the payload for these arguments; InvalidPayload has the path of a bad value."""
        given = self.bind(args, kwargs) if args else kwargs
        try:
            checked = self.shape.check(given if self.model is None else self._model(given))
        except ValidationError as error:
            raise error_from_validation(error) from error
        try:
            document: dict[str, Json] = self.shape.write(checked)
        except Invalid as error:
            raise InvalidPayload(
                f"The payload {error.message}", field=_unwritable(checked)
            ) from error
        return document

    def read_arguments(self, payload: dict[str, Json]) -> Arguments:
        """Return the handler's arguments from a payload."""
        try:
            read = self.shape.read(payload)
        except ValidationError as error:
            raise error_from_validation(error) from error
        except Invalid as error:
            raise InvalidPayload(error.message, field=error.field) from error
        return self._to_arguments(read)

    def read_json_arguments(self, payload_json: str) -> Arguments:
        """Return the handler's arguments from a payload's JSON."""
        try:
            return self._to_arguments(self.shape.read_json(payload_json))
        except ValidationError as error:
            raise error_from_validation(error) from error

    def schema(self) -> dict[str, Json]:
        return self.shape.schema()

    def _to_arguments(self, read: Any) -> Arguments:  # noqa: ANN401 - a value of the shape
        arguments: Arguments = read if self.model is None else {self.model: read}
        return arguments

    def _model(self, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the model, or a dict for it
        (name,) = self.names
        for other in given.keys() - {name}:
            raise InvalidPayload(f"Unknown parameter '{other}'", field=other)
        if name not in given:
            raise InvalidPayload(f"{name}: Field required", field=name)
        return given[name]


def read_parameters(function: Callable[..., Any], *, skip: int = 0) -> Parameters:
    """Read a function's parameters after the first `skip`. NameError if a type is undefined."""
    name = function.__name__
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    hints = read_hints(function, [parameter.name for parameter in parameters])
    for parameter in parameters:
        if parameter.kind not in _NAMED:
            raise Invalid(f"{name}: {parameter} cannot be part of a payload", field=parameter.name)
    names = tuple(parameter.name for parameter in parameters)
    positional = sum(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    model = _only_model(names, hints)
    if model is not None:
        return Parameters(names, _sendable_shape(name, hints[model]), model, positional)
    members = {each: hints.get(each, Any) for each in names}
    defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
    shape = _sendable_shape(name, ObjectShape(name, members, defaults))
    return Parameters(names, shape, None, positional)


def read_result(function: Callable[..., Any]) -> Shape:
    """Return the shape of a function's result; for an async function, of the awaited result."""
    return _shape(function.__name__, read_hints(function, ["return"]).get("return", Any))


def read_hints(function: Callable[..., Any], names: Sequence[str]) -> dict[str, Any]:
    """Return these type hints only: the context's type may exist only for type checkers."""
    annotations = getattr(function, "__annotations__", {})
    wanted = SimpleNamespace(
        __annotations__={name: annotations[name] for name in names if name in annotations}
    )
    return get_type_hints(wanted, getattr(function, "__globals__", {}), include_extras=True)


def error_from_validation(error: ValidationError) -> InvalidPayload:
    """Return an error with locations and reasons, but without values, which may be secret."""
    faults = [
        {"field": ".".join(map(str, fault["loc"])), "message": fault["msg"], "type": fault["type"]}
        for fault in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    first = faults[0]
    location = first["field"] or "the payload"
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return InvalidPayload(
        f"{location}: {first['message']}{more}",
        field=first["field"] or None,
        detail={"errors": faults[:_MOST_ERRORS]},
    )


def locate_refusal(error: Invalid, payload: dict[str, Json]) -> Invalid:
    """Return an encoding error with the name of the member that caused it."""
    for name, member in payload.items():
        try:
            jsonb.encode(member, name)
        except Invalid as fault:
            return InvalidPayload(fault.message, field=name)
    return error


def _unwritable(arguments: Any) -> str | None:  # noqa: ANN401 - a value of any shape
    members = arguments.items() if isinstance(arguments, dict) else ()
    return next((name for name, member in members if not _is_writable(member)), None)


def _is_writable(value: Any) -> bool:  # noqa: ANN401 - any value
    try:
        ANYTHING.write(value)
    except Invalid:
        return False
    return True


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _only_model(names: Sequence[str], hints: Mapping[str, Any]) -> str | None:
    if len(names) != 1:
        return None
    kind = hints.get(names[0])
    pydantic = sys.modules.get("pydantic.main")  # a module with a model has imported it
    is_model = isinstance(kind, type) and pydantic and issubclass(kind, pydantic.BaseModel)
    return names[0] if is_model else None


def _typed_dict(table: ObjectShape) -> Any:  # noqa: ANN401 - a type created at run time
    from pydantic import ConfigDict, Field  # noqa: PLC0415 - only for types that need it
    from typing_extensions import TypedDict  # noqa: PLC0415 - only for types that need it

    fields = dict(table.members)
    for name, default in table.defaults.items():
        extra = {"default": ANYTHING.write(default)} if _is_writable(default) else {}
        fields[name] = NotRequired[Annotated[fields[name], Field(json_schema_extra=extra)]]
    make: Any = TypedDict  # type checkers reject TypedDict with dynamic fields
    typed_dict = make(table.name, fields)
    typed_dict.__pydantic_config__ = ConfigDict(extra="forbid")
    return typed_dict


def _sendable_shape(name: str, kind: Any) -> Shape:  # noqa: ANN401 - any type annotation, or an ObjectShape
    shape = _shape(name, kind)
    if shape.hides_secrets:
        raise Invalid(
            f"{name}: a secret would be stored as asterisks; pass the secret's name, and call"
            " ctx.secret(…) in the handler"
        )
    if shape.loss:
        raise Invalid(f"{name}: {shape.loss}")
    return shape


def _shape(name: str, kind: Any) -> Shape:  # noqa: ANN401 - any type annotation, or an ObjectShape
    if plain_schema(kind) is not None:
        return Shape(kind)
    from pydantic.errors import PydanticUserError  # noqa: PLC0415 - only for types that need it

    try:
        return Shape(kind)
    except PydanticUserError as error:
        raise Invalid(
            f"{name}: the types cannot be written as JSON: {_first_line(error)}"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


ANYTHING = Shape(Any)
