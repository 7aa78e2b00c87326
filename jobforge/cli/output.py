"""What commands print: columns for people, tabs for pipes, JSON for programs. Data on stdout."""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime

import typer

from jobforge.errors import Json

Row = Mapping[str, Json]


def print_rows(rows: Sequence[Row], *, as_json: bool) -> None:
    """A list of things, all with the same fields."""
    if as_json:
        print_json([dict(row) for row in rows])
        return
    lines = [[_text(value) for value in row.values()] for row in rows]
    if sys.stdout.isatty() and rows:
        lines = _aligned([[name.upper() for name in rows[0]], *lines])
    for line in lines:
        typer.echo("\t".join(line).rstrip() if not sys.stdout.isatty() else "  ".join(line))


def print_json(value: Json) -> None:
    typer.echo(json.dumps(value, default=_text, indent=2 if sys.stdout.isatty() else None))


def note(text: str) -> None:
    """A remark for people; it must not get into a pipe."""
    typer.echo(text, err=True)


def _aligned(lines: list[list[str]]) -> list[list[str]]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [[text.ljust(width) for text, width in zip(line, widths, strict=True)] for line in lines]


def _text(value: Json) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return "" if value is None else str(value)
