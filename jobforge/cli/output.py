"""What commands print: columns for people, tabs for pipes, JSON for programs. Data on stdout.

Texts of jobs come from anybody, so a control character in them is shown, never sent to a terminal.
"""

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import typer

from jobforge.errors import Json

T = TypeVar("T")
Row = Mapping[str, Json]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_BAR = 24
_UNITS = [(86400, "d"), (3600, "h"), (60, "m")]


def is_terminal() -> bool:
    """Whether people read what is printed."""
    return sys.stdout.isatty()


def print_rows(rows: Sequence[Row], *, as_json: bool) -> None:
    """A list of things, all with the same fields."""
    if as_json:
        print_json([dict(row) for row in rows])
        return
    lines = [[cell(value) for value in row.values()] for row in rows]
    if is_terminal() and rows:
        lines = _aligned([[name.upper().replace("_", " ") for name in rows[0]], *lines])
    for line in lines:
        typer.echo(("  " if is_terminal() else "\t").join(line).rstrip())


def print_listing(
    things: Sequence[T],
    line: Callable[[T], Row] | None = None,
    document: Callable[[T], Row] | None = None,
    *,
    as_json: bool,
    quiet: bool = False,
) -> None:
    """What was listed: `line` has what people read, `document` everything; else all fields."""
    if quiet:
        for thing in things:
            typer.echo(str(thing.id))  # type: ignore[attr-defined] # who has -q lists what has ids
        return
    whole: Callable[[T], Row] = document or asdict  # type: ignore[assignment] # of a dataclass
    shown = whole if as_json or line is None else line
    print_rows([shown(thing) for thing in things], as_json=as_json)


def print_thing(fields: Row, *, as_json: bool) -> None:
    """One thing, whole."""
    if as_json:
        print_json(dict(fields))
    else:
        print_fields(fields)


def print_fields(fields: Row, *, indent: int = 0) -> None:
    """One thing, a line for each field that it has."""
    given = {name: value for name, value in fields.items() if value not in (None, [], {}, "")}
    width = max(map(len, given), default=0)
    for name, value in given.items():
        typer.echo(f"{' ' * indent}{name.ljust(width)}  {cell(value)}")


def print_value(name: str, value: object, *, as_json: bool) -> None:
    """The one thing that a command answers; programs get its name too."""
    if as_json:
        print_json({name: value})
    else:
        typer.echo(str(value))


def print_ids(ids: Iterable[object]) -> None:
    for one in ids:
        typer.echo(str(one))


def print_json(value: Json) -> None:
    typer.echo(json.dumps(value, default=_text, indent=2 if is_terminal() else None))


def print_json_line(value: Json) -> None:
    """One of a stream of values."""
    typer.echo(json.dumps(value, default=_text))


def print_block(text: str, *, indent: int = 0) -> None:
    """Text of several lines, such as the end of a job's output."""
    for line in text.splitlines():
        typer.echo(" " * indent + clean(line.replace("\t", "    ")))


def save(pieces: Iterable[bytes], to: str) -> None:
    """Bytes as they are: into a file, which is there when all of it is, or to stdout."""
    if to == "-":
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    target = Path(to)
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as aside:
        try:
            for piece in pieces:
                aside.write(piece)
            aside.flush()
            Path(aside.name).replace(target)
        except BaseException:
            Path(aside.name).unlink(missing_ok=True)
            raise


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Tells so many of so many as a bar, where people watch; it is gone at the end."""
    is_watched = sys.stderr.isatty()

    def tell(done: int, total: int) -> None:
        if is_watched and total:
            bar = ("█" * (done * _BAR // total)).ljust(_BAR, "░")
            typer.echo(f"\r{label}  {bar}  {done:,} of {total:,}", nl=False, err=True)

    try:
        yield tell
    finally:
        if is_watched:
            typer.echo("\r\x1b[K", nl=False, err=True)


def note(text: str) -> None:
    """A remark for people; it must not get into a pipe."""
    typer.echo(clean(text), err=True)


def clean(text: str) -> str:
    """The text on one line, with its control characters made visible."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def cell(value: Json) -> str:
    """A value as people read it: times relative on a terminal, structures as JSON."""
    if isinstance(value, datetime) and is_terminal():
        return relative(value)
    if isinstance(value, dict | list | bool):
        return _clean_json(json.dumps(value, default=_text, ensure_ascii=False))
    return clean(_text(value))


def span(duration: timedelta) -> str:
    """A duration in two figures or so: `0.2 s`, `41 s`, `3 m`."""
    seconds = duration.total_seconds()
    for unit, letter in _UNITS:
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {letter}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{max(seconds, 0):.1f} s"


def relative(moment: datetime) -> str:
    """How long ago it was, or will be."""
    now = datetime.now(UTC)
    return f"{span(now - moment)} ago" if moment <= now else f"in {span(moment - now)}"


def _aligned(lines: list[list[str]]) -> list[list[str]]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [[text.ljust(width) for text, width in zip(line, widths, strict=True)] for line in lines]


def _clean_json(text: str) -> str:
    """JSON leaves those above 0x7e as they are; its own escapes keep it JSON."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _text(value: Json) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds")
    return "" if value is None else str(value)
