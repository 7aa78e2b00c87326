"""Shared field types and the strict base class of all request bodies."""

import re
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?([Zz]|[+-]\d\d:?\d\d)")
_LARGEST_FLOAT = 1e15
_FIRST_YEAR, _LAST_YEAR = 1900, 9000


class Body(BaseModel):
    """Strict request body: unknown fields are refused, and types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True)

    def given_fields(self) -> dict[str, Any]:
        """Return the fields that the request contains, including null values."""
        return {
            name: getattr(self, name)
            for name in type(self).model_fields
            if name in self.model_fields_set
        }


def _check_time_text(value: object) -> object:
    # pydantic would read a number as seconds since 1970.
    if isinstance(value, str) and _TIME.fullmatch(value) is None:
        raise ValueError("must be an ISO 8601 time with an offset")
    if isinstance(value, int | float):
        raise ValueError("must be a string: an ISO 8601 time with an offset")  # noqa: TRY004 - pydantic expects ValueError
    return value


def _check_year(moment: datetime) -> datetime:
    # Near the limits of datetime, converting to another time zone would overflow.
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise ValueError(f"must be in the years {_FIRST_YEAR} to {_LAST_YEAR}")
    return moment


def _to_int(value: object) -> object:
    # JSON Schema counts 3.0 as an integer.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _reject_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain the NUL character")
    return text


Moment = Annotated[
    AwareDatetime,
    BeforeValidator(_check_time_text),
    AfterValidator(_check_year),
    Field(strict=False, examples=["2026-12-24T18:00:00Z"]),
]
Seconds = Annotated[float, Field(ge=0, le=_LARGEST_FLOAT, allow_inf_nan=False)]
NulFreeText = Annotated[str, AfterValidator(_reject_nul)]
ShortName = Annotated[NulFreeText, Field(min_length=1, max_length=200)]
Reason = Annotated[NulFreeText, Field(max_length=500)]
QueueName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,49}$", examples=["mail"])]
DefinitionKey = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}$", examples=["send_welcome"])
]
Whole = Annotated[int, BeforeValidator(_to_int)]
Count = Annotated[Whole, Field(ge=1, le=2_147_483_647)]
