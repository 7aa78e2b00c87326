"""Print data on stdout: aligned columns on a terminal, tabs in a pipe, or JSON. Notes on stderr.

Both kinds of table begin with a header line, unless the user passes --no-header.

Job data is untrusted: control characters in it are escaped, never sent to a terminal.
"""

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import indent as indented
from typing import IO

import typer

from jobforge import config
from jobforge.errors import Invalid, Json

OutputRow = Mapping[str, Json]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_BAR = 24
_UNITS = [(86400, "d"), (3600, "h"), (60, "m")]


def is_terminal() -> bool:
    """Return whether stdout is a terminal."""
    return sys.stdout.isatty()


def print_rows(rows: Sequence[OutputRow], *, as_json: bool, no_header: bool = False) -> None:
    """Print rows, which all have the same fields, as a table or a JSON array."""
    if as_json:
        print_array(rows)
    else:
        print_table([rows], no_header=no_header)


def print_table(pages: Iterable[Sequence[OutputRow]], *, no_header: bool = False) -> None:
    """Print a header, and each page when it arrives; nothing if all pages are empty.

    On a terminal, column widths never shrink between pages.
    """
    is_first, widths = True, list[int]()
    for rows in filter(None, pages):
        lines = [[format_cell(value) for value in row.values()] for row in rows]
        if is_first and not no_header:
            lines.insert(0, [name.upper().replace("_", " ") for name in rows[0]])
        is_first = False
        if is_terminal():
            widths = _widths(lines, widths)
            lines = [list(map(str.ljust, line, widths)) for line in lines]
        for line in lines:
            typer.echo(("  " if is_terminal() else "\t").join(line).rstrip())


def print_record(fields: OutputRow, *, as_json: bool) -> None:
    """Print one object as lines of text or as JSON."""
    if as_json:
        print_json(dict(fields))
    else:
        print_fields(fields)


def print_fields(fields: OutputRow, *, indent: int = 0) -> None:
    """Print a line for each field that is not empty."""
    given = {name: value for name, value in fields.items() if value not in (None, [], {}, "")}
    width = max(map(len, given), default=0)
    for name, value in given.items():
        typer.echo(f"{' ' * indent}{name.ljust(width)}  {format_cell(value)}")


def print_value(name: str, value: object, *, as_json: bool) -> None:
    """Print a single value. JSON output includes its name."""
    if as_json:
        print_json({name: value})
    else:
        typer.echo(str(value))


def print_new_secret(name: str, text: str, owner: str, owner_id: object, *, as_json: bool) -> None:
    """Print a secret that cannot be retrieved again, and the ID of its owner."""
    if as_json:
        print_json({"id": str(owner_id), name: text})
    else:
        typer.echo(text)
        note(f"{owner} ID: {owner_id}; the {name} is not shown again")


def print_lines(values: Iterable[object]) -> None:
    """Print one value per line, such as an ID."""
    for value in values:
        typer.echo(clean(str(value)))


def print_json(value: Json) -> None:
    typer.echo(_dump_json(value))


def print_array(rows: Iterable[OutputRow]) -> None:
    """Print a JSON array, writing each element when it arrives."""
    begin, between, end = ("[\n", ",\n", "\n]") if is_terminal() else ("[", ", ", "]")
    before = begin
    for row in rows:
        member = indented(_dump_json(dict(row)), "  ") if is_terminal() else _dump_json(dict(row))
        typer.echo(before + member, nl=False)
        before = between
    typer.echo("[]" if before == begin else end)


def print_json_line(value: Json) -> None:
    """Print one value of a JSON Lines stream."""
    typer.echo(to_json_line(value))


def to_json_line(value: Json) -> str:
    return json.dumps(value, default=to_text)


def print_block(text: str, *, indent: int = 0) -> None:
    """Print text of several lines, such as the tail of a job's output."""
    for line in text.splitlines():
        typer.echo(" " * indent + clean(line.replace("\t", "    ")))


def save(pieces: Iterable[bytes], to: str) -> None:
    """Write bytes to stdout for `-`, or to a file that appears only when it is complete."""
    if to == "-":
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    target = Path(to)
    with _open_sibling_file(target) as temporary:
        try:
            for piece in pieces:
                temporary.write(piece)
            temporary.flush()
            Path(temporary.name).replace(target)
        except BaseException:
            Path(temporary.name).unlink(missing_ok=True)
            raise


@contextmanager
def show_progress(
    label: str, *, data_on_terminal: bool = False
) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function that draws a progress bar on a terminal; erase the bar at the end.

    The function takes the number done and the total, None if the total is unknown. Nothing is
    drawn while the data itself goes to the terminal.
    """
    is_watched = sys.stderr.isatty() and not data_on_terminal

    def report(done: int, total: int | None) -> None:
        if not is_watched or total == 0:
            return
        words = f"{done:,}"
        if total is not None:
            words = f"{('█' * (done * _BAR // total)).ljust(_BAR, '░')}  {words} of {total:,}"
        typer.echo(f"\r{label}  {words}", nl=False, err=True)

    try:
        yield report
    finally:
        if is_watched:
            typer.echo("\r\x1b[K", nl=False, err=True)


def note(text: str) -> None:
    """Print a message on stderr, so that it does not mix with data in a pipe."""
    typer.echo(clean(text), err=True)


def clean(text: str) -> str:
    """Escape control characters and line breaks."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def format_cell(value: Json) -> str:
    """Return a value as text: relative times on a terminal, JSON for structures."""
    if isinstance(value, datetime) and is_terminal():
        return format_relative_time(value)
    if isinstance(value, dict | list | bool):
        return _escape_json_controls(json.dumps(value, default=to_text, ensure_ascii=False))
    return clean(to_text(value))


def to_text(value: Json) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds")
    return "" if value is None else str(value)


def format_duration(duration: timedelta) -> str:
    """Return a duration with about two digits: `0.2 s`, `41 s`, `3 m`."""
    seconds = duration.total_seconds()
    for unit, letter in _UNITS:
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {letter}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{max(seconds, 0):.1f} s"


def format_relative_time(moment: datetime) -> str:
    """Return the time relative to now: `3 m ago`, `in 2 h`."""
    now = datetime.now(UTC)
    return (
        f"{format_duration(now - moment)} ago"
        if moment <= now
        else f"in {format_duration(moment - now)}"
    )


def _open_sibling_file(target: Path) -> "IO[bytes]":
    """Create a temporary file in the target's folder, to be renamed to the target."""
    if target.exists() and not target.is_file():
        raise Invalid(f"{target} is not a regular file")  # never replace a device such as /dev/null
    try:
        return tempfile.NamedTemporaryFile(dir=target.parent, delete=False)
    except OSError as error:
        raise Invalid(f"Cannot write {target}: {error.strerror}") from error


def _widths(lines: list[list[str]], before: list[int]) -> list[int]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return list(map(max, widths, before)) if before else widths


def _dump_json(value: Json) -> str:
    return json.dumps(value, default=to_text, indent=2 if is_terminal() else None)


def _escape_json_controls(text: str) -> str:
    """Escape the control characters above 0x7e, which json.dumps keeps; the text stays JSON."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def warn_of_misspelled_settings() -> None:
    """Print a warning for each misspelled setting.

    For long-running commands, where a wrong setting would otherwise remain unnoticed.
    """
    for name, meant in config.find_misspelled().items():
        note(f"warning: unknown setting {name}; did you mean {meant}?")
