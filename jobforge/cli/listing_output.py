"""Print listings as a table, JSON or JSON Lines, page by page, with selected fields."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from jobforge.cli import output
from jobforge.cli.options import suggest_similar
from jobforge.errors import Invalid

T = TypeVar("T")

_PAGE = 200


@dataclass(frozen=True, slots=True)
class ListingFormat:
    """The output format and fields of a listing."""

    as_json: bool = False
    as_json_lines: bool = False
    field_names: str | None = None
    no_header: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.as_json and self.as_json_lines:
            raise Invalid("--json and --jsonl can't be used together")


def read_pages(
    read: Callable[[int, T | None], list[T]], limit: int | None = None
) -> Iterator[list[T]]:
    """Yield pages of at most `limit` things in total.

    `read` returns a page of the given size, after the last thing of the previous page.
    """
    last, remaining = None, limit
    while remaining is None or remaining > 0:
        size = _PAGE if remaining is None else min(remaining, _PAGE)
        page = read(size, last)
        yield page
        if len(page) < size:
            return
        remaining = None if remaining is None else remaining - size
        last = page[-1]


def print_listing(
    pages: Iterable[Sequence[T]],
    kind: type[T],
    line: Callable[[T], output.OutputRow] | None = None,
    document: Callable[[T], output.OutputRow] | None = None,
    *,
    form: ListingFormat,
) -> None:
    """Print a listing, page by page.

    `line` returns a table row, `document` all fields; default: asdict.
    """
    whole: Callable[[T], output.OutputRow] = document or asdict  # type: ignore[assignment] # T is a dataclass
    shown = whole if form.as_json or form.as_json_lines or line is None else line
    if form.field_names is not None:
        shown = partial(_pick_fields, whole, parse_field_names(form.field_names, kind))
    rows = ([shown(thing) for thing in page] for page in pages)
    if form.quiet:
        output.print_lines(thing.id for thing in chain.from_iterable(pages))  # type: ignore[attr-defined] # commands with -q list objects with an id
    elif form.as_json:
        output.print_array(chain.from_iterable(rows))
    elif form.as_json_lines:
        for row in chain.from_iterable(rows):
            output.print_json_line(dict(row))
    else:
        output.print_table(rows, no_header=form.no_header)


def parse_field_names(text: str, kind: type[Any]) -> list[str]:
    """Return the names in --fields. Raises Invalid, listing all fields, for an unknown one."""
    known = [each.name for each in fields(kind)]
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            all_of_them = f"Valid fields: {', '.join(known)}"
            near = suggest_similar(name, known)
            raise Invalid(
                f"Unknown field {name!r}",
                field="fields",
                hint=f"{near} {all_of_them}" if near else all_of_them,
            )
    return names


def _pick_fields(
    whole: Callable[[T], output.OutputRow], names: Sequence[str], thing: T
) -> output.OutputRow:
    row = whole(thing)
    return {name: row[name] for name in names}
