"""Transcripts: files with commands and their output.

    $ jobforge jobs list            in a pipe; `% jobforge …` is on a terminal
        what it printed
      ! what it printed on stderr
      = 3                           its exit code, unless it is 0

`{name}` stands for a value that differs from run to run, `{name:18}` for its first 18 characters,
and `| head -3` shows only the start. A run writes the file again, so that a developer who changes
output replaces the file and reads the difference.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from integration.terminal import Terminal

from jobforge import __version__
from jobforge.cli import output

_ID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_UNSTEADY = (
    (_ID, "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d|Z)"), "<time>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\+00"), "<time>"),
    (re.compile(r"^\d\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r'"(lease|waited_s|lookup)": ("\w+"|[\d.]+)'), r'"\1": <unsteady>'),
    (re.compile(r"\S+/bin/jobforge\b"), "jobforge"),
    (re.compile(r"\b\d+(\.\d)? [smhd] ago\b"), "<ago>"),
    (re.compile(r"\bin \d+(\.\d)? [smhd]\b"), "in <span>"),
    (re.compile(r"\bafter \d+(\.\d)? [smhd]\b"), "after <span>"),
    (re.compile(r"\bjf_[\w-]+"), "<key>"),
    (re.compile(r"\bwhsec_[\w+/=]+"), "<secret>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<fingerprint>"),
    (re.compile(re.escape(__version__)), "<version>"),
)
_PAUSES = re.compile(r"(?<=\S) {2,}")


@dataclass(frozen=True, slots=True)
class Case:
    """A command of a transcript; with `is_watched` it runs on a terminal; `lines` limits the lines
    to show.
    """

    text: str
    is_watched: bool
    words: list[str]
    lines: int | None

    @classmethod
    def read(cls, line: str) -> "Case":
        command, _, head = line[2:].partition(" | head -")
        return cls(line, line[0] == "%", shlex.split(command)[1:], int(head) if head else None)


def exit_codes(transcript: Path) -> Iterator[tuple[Case, int]]:
    """Return the exit codes in the file."""
    blocks = re.split(r"^(?=[$%] )", transcript.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for block in blocks[1:]:
        code = re.search(r"^  = (\d+)$", block, re.MULTILINE)
        yield Case.read(block.splitlines()[0]), int(code[1]) if code else 0


def play(transcript: Path, shell: Terminal, names: Mapping[str, str]) -> str:
    """Return the file as this run would write it."""
    known = dict(names)
    lines = []
    for line in transcript.read_text(encoding="utf-8").splitlines():
        if line.startswith(("$ ", "% ")):
            lines += [line, *_play(Case.read(line), shell, known)]
        elif line.startswith("#") or not line:
            lines.append(line)
    return "\n".join(lines).rstrip("\n") + "\n"


def _play(case: Case, shell: Terminal, names: dict[str, str]) -> Iterator[str]:
    words = [_fill(word, names) for word in case.words]
    with pytest.MonkeyPatch.context() as patch:
        if case.is_watched:
            patch.setattr(output, "is_terminal", lambda: True)
        said = shell.run(*words)
    if _ID.fullmatch(said.stdout.strip()):
        names["made"] = said.stdout.strip()  # names that later commands can use
    printed = _tidy(said.stdout, names)
    yield from (f"    {line}" for line in printed[: case.lines])
    if case.lines is not None and len(printed) > case.lines:
        yield "    …"
    yield from (f"  ! {line}" for line in _tidy(said.stderr, names))
    if said.returncode:
        yield f"  = {said.returncode}"


def _fill(word: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        word = word.replace(f"{{{name}}}", value).replace(f"{{{name}:18}}", value[:18])
    return word


def _tidy(text: str, names: Mapping[str, str]) -> list[str]:
    for name, value in names.items():
        text = text.replace(value, f"{{{name}}}")
    lines = _json(text) or text.splitlines()
    return [_normalize_line(line).rstrip() for line in lines]


def _normalize_line(line: str) -> str:
    for pattern, name in _UNSTEADY:
        line = pattern.sub(name, line)
    return _PAUSES.sub("  ", line)


def _json(text: str) -> list[str] | None:
    """Write one line per member, because a diff of one long line shows nothing."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if isinstance(value, list):
        return ["[", *(f"  {_dump(each)}" for each in value), "]"]
    if isinstance(value, dict):
        return [f"{_dump(name)}: {_dump(each)}" for name, each in value.items()]
    return None


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
