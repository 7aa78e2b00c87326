"""Lists: as columns or as JSON, whole or some fields, page after page as they come."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial, wraps
from itertools import chain
from typing import Annotated, Any, TypeVar

import typer

from jobforge.cli import output
from jobforge.cli.options import AsJson, CommandFunction, replace_parameter, suggest_similar
from jobforge.errors import Invalid

T = TypeVar("T")

FieldNames = Annotated[
    str | None,
    typer.Option("--fields", metavar="A,B", help="Only these, named as the HTTP API names them."),
]
_OPTIONS: dict[str, Any] = {
    "as_json": AsJson,
    "as_json_lines": Annotated[
        bool, typer.Option("--jsonl", help="Print a line of JSON for each.")
    ],
    "field_names": FieldNames,
}


@dataclass(frozen=True, slots=True)
class ListingFormat:
    """What the options above say."""

    as_json: bool
    as_json_lines: bool
    field_names: str | None


def with_listing_format(command: CommandFunction) -> CommandFunction:
    """A command that gets the `form` of its list; the options that say it are added to it."""

    @wraps(command)
    def run(
        *,
        as_json: bool | None,
        as_json_lines: bool | None,
        field_names: str | None,
        **given: object,
    ) -> None:
        if as_json and as_json_lines:
            raise Invalid("--json and --jsonl exclude each other")
        command(form=ListingFormat(bool(as_json), bool(as_json_lines), field_names), **given)

    return replace_parameter(run, "form", _OPTIONS)


def print_listing(
    things: Sequence[T],
    kind: type[T],
    line: Callable[[T], output.OutputRow] | None = None,
    document: Callable[[T], output.OutputRow] | None = None,
    *,
    form: ListingFormat,
    quiet: bool = False,
) -> None:
    """What was listed: `line` has what people read, `document` everything; else all fields."""
    print_pages([things], kind, line, document, form=form, quiet=quiet)


def print_pages(
    pages: Iterable[Sequence[T]],
    kind: type[T],
    line: Callable[[T], output.OutputRow] | None = None,
    document: Callable[[T], output.OutputRow] | None = None,
    *,
    form: ListingFormat,
    quiet: bool = False,
) -> None:
    """As print_listing, for as many pages as come."""
    whole: Callable[[T], output.OutputRow] = document or asdict  # type: ignore[assignment] # of a dataclass
    shown = whole if form.as_json or form.as_json_lines or line is None else line
    if form.field_names is not None:
        shown = partial(_pick_fields, whole, parse_field_names(form.field_names, kind))
    rows = ([shown(thing) for thing in page] for page in pages)
    if quiet:
        output.print_ids(thing.id for thing in chain.from_iterable(pages))  # type: ignore[attr-defined] # who has -q lists what has ids
    elif form.as_json:
        output.print_array(chain.from_iterable(rows))
    elif form.as_json_lines:
        for row in chain.from_iterable(rows):
            output.print_json_line(dict(row))
    else:
        output.print_table(rows)


def parse_field_names(text: str, kind: type[Any]) -> list[str]:
    """Those that --fields names; Invalid, with all that there are, when there is no such one."""
    known = [each.name for each in fields(kind)]
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            all_of_them = f"the fields are {', '.join(known)}"
            near = suggest_similar(name, known)
            raise Invalid(
                f"there is no field {name!r}",
                field="fields",
                hint=f"{near} {all_of_them}" if near else all_of_them,
            )
    return names


def _pick_fields(
    whole: Callable[[T], output.OutputRow], names: Sequence[str], thing: T
) -> output.OutputRow:
    row = whole(thing)
    return {name: row[name] for name in names}
