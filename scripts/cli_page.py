"""Write the command reference in docs/cli.md from the commands of `jobforge`.

The text above the heading "Command reference" is written manually and stays as it is. Everything
below it is what `jobforge … --help` prints.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from jobforge.cli import app

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"

_HEADING = "## Command reference\n"
_HEAD = """\
Run any command with `--help` to see the text of this section.
`--help` itself is an option of every command.
"""
_GUIDES = {
    "dev": "[Embedded Postgres](embedded.md)",
    "server": "[HTTP](http.md)",
    "worker": "[Worker](worker.md) and [Settings](configuration.md#the-worker)",
    "scheduler": "[Schedules](schedules.md) and [Events](events.md)",
    "jobs": "[Job lifecycle](lifecycle.md) and [Job filters](#job-filters)",
    "jobs explain": "[Explain codes](explain.md)",
    "jobs artifact": "[Artifacts](artifacts.md)",
    "queues": "[Limits](limits.md)",
    "definitions": "[Limits](limits.md)",
    "triggers": "[Schedules](schedules.md) and [Events](events.md)",
    "events": "[Events](events.md)",
    "webhooks": "[Webhooks](webhooks.md)",
    "connectors": "[Connectors](connectors.md)",
    "secrets": "[Connectors](connectors.md)",
    "workflows": "[Workflows](workflows.md)",
    "stats": "[Statistics](statistics.md)",
    "tenants": "[Tenants](tenancy.md) and [Limits](limits.md)",
    "workers": "[Isolation levels](isolation.md#levels)",
    "keys": "[Authentication](http-auth.md)",
    "config": "[Settings](configuration.md)",
    "doctor": "[Doctor](doctor.md)",
    "db": "[Install](install.md) and [Operations](operations.md)",
    "db bind-login": "[Bind a login to tenants](tenancy.md#bind-a-login-to-tenants)",
}

# An option that at least this number of commands share is described once.
_COMMON_TO = 8

_LINE_BREAK = re.compile(r"(?<!\n)\n(?!\n)")  # within a paragraph

Record = tuple[str, str]  # an option or argument with its help


def page(current: str) -> str:
    """Return the page with its manual part and a new reference."""
    manual = current.partition(_HEADING)[0]
    contexts = list(_walk(typer.Context(get_command(app), info_name="jobforge")))
    counted = Counter(record for context in contexts for record in _options(context))
    common = [record for record, count in counted.items() if count >= _COMMON_TO]
    parts = [_HEADING, _HEAD, "### Common options\n", *_table("Option", common)]
    for context in contexts:
        parts += _describe(context, common)
    return manual + "\n".join(parts)


def _walk(context: typer.Context) -> Iterator[typer.Context]:
    """Yield the contexts of the program's commands and groups, in the order of `--help`."""
    for name, command in getattr(context.command, "commands", {}).items():
        child = typer.Context(command, info_name=name, parent=context)
        yield child
        yield from _walk(child)


def _describe(context: typer.Context, common: list[Record]) -> Iterator[str]:
    command: Any = context.command
    path = context.command_path
    yield f"{'#' * (path.count(' ') + 2)} `{path}`\n"
    yield _LINE_BREAK.sub(" ", command.help) + "\n"
    guides = _GUIDES.get(path.removeprefix("jobforge "))
    if guides:
        yield f"See {guides}.\n"
    if hasattr(command, "commands") and not command.invoke_without_command:
        return
    options = _options(context)
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    usage = [path, *(["[OPTIONS]"] if options else []), *map(_format_usage, arguments)]
    yield f"```text\n{' '.join(usage)}\n```\n"
    yield from _table("Argument", _arguments(context))
    yield from _table("Option", [each for each in options if each not in common])
    shared = [f"`{each[0].split(' ')[0].rstrip(',')}`" for each in options if each in common]
    if shared:
        yield f"[Common options](#common-options): {', '.join(shared)}.\n"


def _table(title: str, records: list[Record]) -> Iterator[str]:
    if not records:
        return
    yield f"| {title} | Description |\n|---|---|"
    for name, text in records:
        yield f"| `{_escape(name)}` | {_escape(text)} |"
    yield ""


def _escape(text: str) -> str:
    return text.replace("|", r"\|")


def _format_usage(argument: Any) -> str:  # noqa: ANN401 - typer does not export the class
    name = argument.metavar or argument.name.upper()
    return (name if argument.required else f"[{name}]") + ("..." if argument.nargs != 1 else "")


def _options(context: typer.Context) -> list[Record]:
    return _records(context, "option")


def _arguments(context: typer.Context) -> list[Record]:
    """Return the arguments without their types, which follow the names."""
    return [(name.partition(" <")[0], text) for name, text in _records(context, "argument")]


def _records(context: typer.Context, kind: str) -> list[Record]:
    """Return the command's options or arguments with their help, without hidden ones."""
    found = [
        each.get_help_record(context)
        for each in context.command.params
        if each.param_type_name == kind
    ]
    return [(name, _format_help(text)) for name, text in filter(None, found)]


def _format_help(text: str) -> str:
    """Return the help with its notes in brackets, such as the default, as sentences."""
    words, _, notes = text.partition("  [")
    sentences = [_format_note(note) for note in notes.removesuffix("]").split("; ") if note]
    return " ".join([words, *sentences]).strip()


def _format_note(note: str) -> str:
    """Return `default: 50`, `1<=x<=200`, `x>=1` or `required` as a sentence."""
    name, colon, value = note.partition(": ")
    if colon:
        return f"{name.capitalize()}: `{value}`."
    limits = re.sub(r"(.+)<=x<=(.+)", r"\1 to \2", re.sub("^x>=", "at least ", note))
    return f"{limits.capitalize()}."
