"""Pages of a list, by the last key of the page before: `next` is opaque to whoever passes it on."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, Field

from jobforge.errors import Invalid

T = TypeVar("T")

DEFAULT_LIMIT = 50
MOST = 200

Limit = Annotated[int, Query(ge=1, le=MOST, description="How many at most.")]
Cursor = Annotated[
    str | None,
    Query(max_length=500, description="`next` of the page before.", examples=[None]),
]


class Page(BaseModel, Generic[T]):
    """A part of a list; `next` leads to the part after it, and is null at the end."""

    items: list[T]
    next: str | None = Field(description="Pass it as `cursor`; null: there is no more.")


class Items(BaseModel, Generic[T]):
    """A whole list."""

    items: list[T]


def page(items: Sequence[T], limit: int, key: Callable[[T], object]) -> dict[str, Any]:
    """A full page may be the last one; the next is empty then."""
    last = str(key(items[-1])) if len(items) >= limit else None
    return {"items": items, "next": None if last is None else write_cursor(last)}


def write_cursor(last: str) -> str:
    return base64.urlsafe_b64encode(last.encode()).rstrip(b"=").decode()


def read_cursor(cursor: str | None) -> str | None:
    """Raises Invalid."""
    if cursor is None:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error) as error:
        raise Invalid("this is no cursor of a page", field="cursor") from error
    if "\0" in text:
        raise Invalid("this is no cursor of a page", field="cursor")
    return text


def read_id(cursor: str | None) -> UUID | None:
    """A cursor whose key is an id; raises Invalid."""
    text = read_cursor(cursor)
    try:
        return None if text is None else UUID(text)
    except ValueError as error:
        raise Invalid("this is no cursor of a page", field="cursor") from error
