"""Encoding of arguments as a payload, and decoding of a payload to arguments."""

import dataclasses
from collections.abc import Callable
from dataclasses import InitVar, dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    Secret,
    SecretStr,
    computed_field,
)

from jobforge.errors import Invalid, InvalidPayload
from jobforge.payloads.signature import Shape, locate_refusal, read_parameters, read_result
from jobforge.types import jsonb


class Color(StrEnum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int


class Line(BaseModel):
    amount: Decimal
    count: int = Field(default=1, gt=0)

    @computed_field
    def double(self) -> int:
        return self.count * 2


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", populate_by_name=True)

    id: UUID
    due: date = Field(alias="dueDate")


def everything(
    when: datetime,
    wait: timedelta,
    who: UUID,
    color: Color,
    point: Point,
    lines: list[Line],
    raw: bytes,
    by_number: dict[int, str],
    unique: set[int],
    either: int | None,
    strict: Strict,
    free: Any,
) -> None: ...


EVERYTHING: dict[str, Any] = {
    "when": datetime(2030, 1, 1, 12, 30, 15, 123456, tzinfo=UTC),
    "wait": timedelta(days=1, milliseconds=5),
    "who": UUID(int=7),
    "color": Color.RED,
    "point": Point(1, 2),
    "lines": [Line(amount=Decimal("12.30"), count=3)],
    "raw": "é".encode(),
    "by_number": {1: "one"},
    "unique": {1, 2},
    "either": None,
    "strict": Strict(id=UUID(int=1), dueDate=date(2030, 1, 2)),
    "free": {"any": [1, 2.5, "x", None, True]},
}


def test_every_kind_of_argument_survives_the_round_trip() -> None:
    parameters = read_parameters(everything)
    payload = parameters.build_payload((), EVERYTHING)
    stored = jsonb.decode(jsonb.encode(payload, "payload"))
    assert parameters.read_arguments(stored) == EVERYTHING


def simple(to: str, copies: int = 1, *, urgent: bool = False) -> None: ...


@pytest.mark.parametrize(
    ("args", "kwargs", "payload"),
    [
        (("ada",), {}, {"to": "ada"}),
        (("ada", 2), {"urgent": True}, {"to": "ada", "copies": 2, "urgent": True}),
        ((), {"copies": "2", "to": "ada"}, {"copies": 2, "to": "ada"}),
    ],
)
def test_the_payload_contains_the_given_arguments(
    args: tuple[Any, ...], kwargs: dict[str, Any], payload: dict[str, Any]
) -> None:
    assert read_parameters(simple).build_payload(args, kwargs) == payload


BAD: dict[str, tuple[tuple[Any, ...], dict[str, Any], str | None]] = {
    "a missing one": ((), {}, "to"),
    "an unknown one": (("ada",), {"cc": "bob"}, "cc"),
    "one too many": (("ada", 1, True, 4), {}, None),
    "one by position that has to be named": (("ada", 1, True), {}, None),
    "one given twice": (("ada",), {"to": "bob"}, "to"),
    "a wrong type": ((1,), {}, "to"),
    "a text that is no number": (("ada",), {"copies": "many"}, "copies"),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_arguments_are_refused_with_their_field(case: str) -> None:
    args, kwargs, field = BAD[case]
    with pytest.raises(InvalidPayload) as refusal:
        read_parameters(simple).build_payload(args, kwargs)
    assert refusal.value.field == field


def test_the_field_is_the_path_to_the_invalid_value() -> None:
    def nested(lines: list[Line]) -> None: ...

    with pytest.raises(InvalidPayload) as refusal:
        read_parameters(nested).build_payload(
            (), {"lines": [{"amount": "1"}, {"amount": "1", "count": 0}]}
        )
    assert refusal.value.field == "lines.1.count"
    assert refusal.value.detail["errors"][0]["type"] == "greater_than"


def test_a_single_model_is_the_whole_payload() -> None:
    def ship(line: Line) -> None: ...

    parameters = read_parameters(ship)
    payload = parameters.build_payload((Line(amount=Decimal("1.5")),), {})
    assert payload == {"amount": "1.5", "count": 1}
    assert parameters.read_arguments(payload) == {"line": Line(amount=Decimal("1.5"))}
    for kwargs, field in (({}, "line"), ({"line": payload, "more": 1}, "more")):
        with pytest.raises(InvalidPayload) as refusal:
            parameters.build_payload((), kwargs)
        assert refusal.value.field == field


def test_the_schema_has_defaults_and_refuses_unknown_fields() -> None:
    schema = read_parameters(simple).schema()
    assert schema["required"] == ["to"]
    assert schema["properties"]["copies"] == {"default": 1, "title": "Copies", "type": "integer"}
    assert schema["additionalProperties"] is False


def test_names_that_pydantic_uses_itself_are_allowed() -> None:
    def odd(json: str, copy: int, model_config: str, schema: str = "s") -> None: ...

    given = {"json": "j", "copy": 1, "model_config": "m"}
    assert read_parameters(odd).build_payload((), given) == given


def test_constraints_of_annotations_are_checked() -> None:
    def limited(count: Annotated[int, Field(gt=0)] = 1) -> None: ...

    with pytest.raises(InvalidPayload):
        read_parameters(limited).build_payload((0,), {})


class Opaque:
    pass


def _opaque(thing: Opaque) -> None: ...
def _callback(then: Callable[[], None], *rest: int) -> None: ...
def _rest(**more: int) -> None: ...


@pytest.mark.parametrize("function", [_opaque, _callback, _rest])
def test_a_type_that_cannot_be_json_is_refused_when_it_is_declared(
    function: Callable[..., None],
) -> None:
    with pytest.raises(Invalid):
        read_parameters(function)


@dataclass
class Counted:
    x: int
    count: int = dataclasses.field(init=False, default=0)


@dataclass
class Seeded:
    x: int
    seed: InitVar[int]


@dataclass
class Doubled:
    x: int
    y: int = dataclasses.field(init=False)
    start: InitVar[int] = 1

    def __post_init__(self, start: int) -> None:
        self.y = self.x * 2 * start


class Level(IntEnum):
    LOW = 1


class Shade(Enum):
    DARK = 1


class Pair(NamedTuple):
    x: int
    y: int


LOST: list[Any] = [
    *(Counted, list[Counted], Seeded),
    *(dict[None, int], dict[str | None, int], dict[tuple[int, int], int], dict[Pair, int]),
    *(dict[frozenset[int], int], dict[tuple[int, ...] | str, int], dict[Literal[1], int]),
    *(dict[Shade, int], dict[str, dict[None, int]]),
]


def _taking(kind: Any) -> Callable[..., None]:
    def function(one: Any, two: Any = None) -> None: ...

    function.__annotations__["one"] = kind
    return function


@pytest.mark.parametrize("kind", LOST, ids=str)
def test_a_type_that_does_not_survive_the_round_trip_is_refused_when_it_is_declared(
    kind: Any,
) -> None:
    with pytest.raises(Invalid, match=r"field\(init=False\)|InitVar|dict keys must"):
        read_parameters(_taking(kind))


KEPT: list[tuple[Any, Any]] = [
    (Doubled, Doubled(3)),
    (dict[float, int], {1.5: 1}),
    (dict[date, int], {date(2030, 1, 2): 1}),
    (dict[Color, int], {Color.RED: 1}),
    (dict[Level, int], {Level.LOW: 1}),
    (dict[Literal["a", "b"], int], {"b": 1}),
]


@pytest.mark.parametrize(("kind", "value"), KEPT, ids=str)
def test_a_type_that_survives_the_round_trip_can_be_declared(kind: Any, value: Any) -> None:
    parameters = read_parameters(_taking(kind))
    stored = jsonb.encode(parameters.build_payload([value], {}), "payload")
    assert parameters.read_json_arguments(stored) == {"one": value}


def test_a_default_may_have_any_value() -> None:
    def odd(when: date, how: dict[str, Any] = {"serialization": "x", "type": "dict"}) -> None: ...  # noqa: B006 - it is not changed

    assert read_parameters(odd).build_payload([], {"when": "2030-01-02"}) == {"when": "2030-01-02"}


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    "value",
    [
        *(object(), float("nan"), {"x": [float("inf")]}, "a\0b", "\ud800", 2**70, CYCLE, Opaque),
        {frozenset(): 1},
    ],
    ids=["object", "nan", "inf", "nul", "surrogate", "huge", "cycle", "class", "key"],
)
def test_a_value_that_jsonb_cannot_store_is_refused_with_its_field(value: Any) -> None:
    def free(fine: Any, odd: Any) -> None: ...

    parameters = read_parameters(free)
    with pytest.raises(InvalidPayload) as refusal:
        _sent(parameters.build_payload((1, value), {}))
    assert refusal.value.field == "odd"


def _sent(payload: dict[str, Any]) -> None:
    try:
        jsonb.encode(payload, "payload")
    except Invalid as error:
        raise locate_refusal(error, payload) from error


def test_a_result_is_decoded_as_its_type() -> None:
    def result() -> list[Line]:
        return []

    shape = read_result(result)
    lines = [Line(amount=Decimal("0.10"))]
    assert shape.read(shape.write(lines)) == lines


def test_a_result_without_a_type_may_be_any_json() -> None:
    shape = Shape(Any)
    assert shape.write({"at": date(2030, 1, 2), "who": UUID(int=1)}) == {
        "at": "2030-01-02",
        "who": str(UUID(int=1)),
    }
    with pytest.raises(Invalid):
        shape.write(object())


def _one(secret: SecretStr) -> None: ...
def _among_others(number: int, dates: dict[str, Secret[date] | None]) -> None: ...
def _shown(secret: Annotated[SecretStr, PlainSerializer(lambda it: it.get_secret_value())]) -> None:
    assert secret


@pytest.mark.parametrize("function", [_one, _among_others])
def test_a_secret_that_would_be_sent_as_asterisks_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(Invalid, match=r"ctx\.secret"):
        read_parameters(function)


def test_a_secret_with_a_serializer_is_sent() -> None:
    parameters = read_parameters(_shown)
    payload = parameters.build_payload([SecretStr("x")], {})
    assert parameters.read_arguments(payload) == {"secret": SecretStr("x")}
