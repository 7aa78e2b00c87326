"""Keyset pagination: `next` is an opaque cursor made of the last key of the page."""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from fastapi import Depends, Query
from pydantic import BaseModel, Field

from jobforge.api.responses import JsonResponse
from jobforge.errors import Invalid

T = TypeVar("T")

DEFAULT_LIMIT = 50
MAX_LIMIT = 200

PageLimit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Maximum number of items.")]
Cursor = Annotated[
    str | None,
    Query(max_length=500, description="`next` of the previous page.", examples=[None]),
]


class Page(BaseModel, Generic[T]):
    """One page of a list. `next` is the cursor of the following page, or null on the last page."""

    items: list[T]
    next: str | None = Field(
        description="Pass it as `cursor` to get the next page; null on the last page."
    )


class Items(BaseModel, Generic[T]):
    """A complete list."""

    items: list[T]


def build_page(items: Sequence[T], limit: int, key: Callable[[T], object]) -> dict[str, Any]:
    """Build a page; a full last page still gets a cursor, which leads to an empty page."""
    last = str(key(items[-1])) if len(items) >= limit else None
    return {"items": items, "next": None if last is None else encode_cursor(last)}


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The page that a request asks for."""

    limit: PageLimit = DEFAULT_LIMIT
    cursor: Cursor = None

    def decode_id(self) -> UUID | None:
        """Return the cursor, whose key is an id; raise Invalid."""
        text = self.decode_text()
        try:
            return None if text is None else UUID(text)
        except ValueError as error:
            raise Invalid("cursor is not a valid page cursor", field="cursor") from error

    def decode_text(self) -> str | None:
        """Return the cursor; raise Invalid."""
        return decode_cursor(self.cursor)

    def respond(
        self, items: Sequence[T], *, key: Callable[[T], object] = attrgetter("id")
    ) -> JsonResponse:
        return JsonResponse(build_page(items, self.limit, key))


Paging = Annotated[PageRequest, Depends()]


def encode_cursor(last: str) -> str:
    return base64.urlsafe_b64encode(last.encode()).rstrip(b"=").decode()


def decode_cursor(cursor: str | None) -> str | None:
    """Decode a cursor; raise Invalid."""
    if cursor is None:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error) as error:
        raise Invalid("cursor is not a valid page cursor", field="cursor") from error
    if "\0" in text:
        raise Invalid("cursor is not a valid page cursor", field="cursor")
    return text
