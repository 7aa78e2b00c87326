"""Templates: a job's payload with tags where values of an event or a schedule go.

    {{ path(.name | [n])* (| default(JSON) | json)* }}

That is the whole language: no attributes, calls or loops. Tags stand in the strings of a JSON
value, never in its keys. A string that is one tag takes the value as it is, number or object;
within other text a value that is no string is written as JSON. What a path does not find is an
error unless the tag has a default. Values are put in once and never read as templates. Whoever
renders a template again and again parses it once.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from jobforge.errors import Invalid, Json
from jobforge.types import jsonb

MOST_BYTES = 256 * 1024  # of a template, and of what it makes
MOST_TAGS = 1000
MOST_FILTERS = 4
DEEPEST = 64  # as the engine has it
UNREADABLE = "$unreadable"  # the engine returns this key instead of a value that is too long
SCHEDULE_ROOTS = ("schedule",)  # what the tags of a schedule's payload start with

Path = tuple[str | int, ...]
# What a path leads to when there is nothing; None is a value.
MISSING = object()


@dataclass(frozen=True, slots=True)
class Template:
    """A template that was read: the same value with its strings taken apart."""

    body: Json
    field: str

    def render(self, values: Mapping[str, Json]) -> Json:
        """The template with its tags replaced; Invalid with the path of what cannot be."""
        rendered = _filled(self.body, _Filling(values))
        _measure(rendered, self.field)
        return rendered


def parse(template: Json, *, field: str = "payload", roots: Collection[str] = ()) -> Template:
    """Read a template whose paths start with one of `roots`; Invalid with the path of a fault."""
    if isinstance(template, dict) and UNREADABLE in template:
        raise Invalid(f"{field} cannot be read: {template[UNREADABLE]}", field=field)
    _measure(template, field)
    return Template(_Reading(roots).read(template, field, 0), field)


def check(template: Json, *, field: str = "payload", roots: Collection[str] = ()) -> None:
    """Refuse a template that could not be rendered with any values: for when it is saved."""
    parse(template, field=field, roots=roots)


def render(template: Json, values: Mapping[str, Json], *, field: str = "payload") -> Json:
    """The template with its tags replaced; Invalid with the path of what cannot be."""
    return parse(template, field=field).render(values)


def read_path(text: str, *, field: str, roots: Collection[str] = ()) -> Path:
    """The steps of a path such as `event.items[0].sku`."""
    found = _PATH.fullmatch(text)
    if found is None:
        raise Invalid(f"{field}: {text[:80]!r} is not a path such as event.items[0]", field=field)
    return _steps(found, field, roots)


def look_up(path: Path, values: Mapping[str, Json]) -> Json:
    """What the path leads to in JSON values: members and elements only; MISSING when nothing."""
    value: Json = values
    for step in path:
        if isinstance(step, str) and isinstance(value, Mapping):
            value = value.get(step, MISSING)
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return MISSING
    return value


@dataclass(frozen=True, slots=True)
class _Tag:
    path: Path
    filters: tuple[Callable[[Json, str], Json], ...]


@dataclass(frozen=True, slots=True)
class _Text:
    """A string with tags in it."""

    field: str
    parts: tuple[str | _Tag, ...]


@dataclass(slots=True)
class _Filling:
    """One rendering: the values, and how many bytes may still come of them."""

    values: Mapping[str, Json]
    left: int = MOST_BYTES

    def fill(self, text: _Text) -> Json:
        if len(text.parts) == 1 and isinstance(text.parts[0], _Tag):
            return self._value(text.parts[0], text.field)[0]
        return "".join(
            part if isinstance(part, str) else self._words(part, text.field) for part in text.parts
        )

    def _words(self, tag: _Tag, at: str) -> str:
        value, words = self._value(tag, at)
        return value if isinstance(value, str) else words

    def _value(self, tag: _Tag, at: str) -> tuple[Json, str]:
        value = look_up(tag.path, self.values)
        for apply in tag.filters:
            value = apply(value, at)
        if value is MISSING:
            raise Invalid(f"{at}: there is no {_spelled(tag.path)}, and no default", field=at)
        words = jsonb.encode(value, at)
        self.left -= len(words)
        if self.left < 0:
            _refuse_size(at)
        return value, words


@dataclass(slots=True)
class _Reading:
    """One parsing: what paths may start with, and how many tags there were."""

    roots: Collection[str]
    tags: int = field(default=0)

    def read(self, value: Json, at: str, depth: int) -> Json:
        if depth > DEEPEST:
            raise Invalid(f"{at} is nested deeper than {DEEPEST}", field=at)
        if isinstance(value, str):
            return self._text(value, at)
        if isinstance(value, dict):
            return {
                _plain(name, at): self.read(inner, f"{at}.{name}", depth + 1)
                for name, inner in value.items()
            }
        if isinstance(value, list):
            return [self.read(inner, f"{at}.{n}", depth + 1) for n, inner in enumerate(value)]
        return value

    def _text(self, text: str, at: str) -> str | _Text:
        parts: list[str | _Tag] = []
        done = 0
        while (start := text.find("{{", done)) >= 0:
            if start > done:
                parts.append(text[done:start])
            tag, done = self._tag(text, start, at)
            parts.append(tag)
        if not parts:
            return text
        if done < len(text):
            parts.append(text[done:])
        return _Text(at, tuple(parts))

    def _tag(self, text: str, start: int, at: str) -> tuple[_Tag, int]:
        self.tags += 1
        if self.tags > MOST_TAGS:
            raise Invalid(f"{at}: a template has at most {MOST_TAGS} tags", field=at)
        found = _PATH.match(text, start + 2)
        if found is None:
            _refuse(text, start + 2, "a path was expected", at)
        path, position = _steps(found, at, self.roots), found.end()
        filters: list[Callable[[Json, str], Json]] = []
        while not text.startswith("}}", position):
            if len(filters) == MOST_FILTERS:
                _refuse(text, position, f"a tag has at most {MOST_FILTERS} filters", at)
            apply, position = _filter(text, position, at)
            filters.append(apply)
        return _Tag(path, tuple(filters)), position + 2


# Every repetition starts with a character of its own, so that matching takes one pass.
_PATH = re.compile(r"\s*([\w-]+)((?:\.[\w-]+|\[[0-9]{1,9}\])*)\s*")
_STEP = re.compile(r"\.([\w-]+)|\[([0-9]+)\]")
_JSON = re.compile(r"\|\s*json\s*")
_DEFAULT = re.compile(r"\|\s*default\s*\(\s*")
_CLOSED = re.compile(r"\s*\)\s*")


def _steps(found: re.Match[str], at: str, roots: Collection[str]) -> Path:
    root, rest = found.groups()
    if roots and root not in roots:
        known = " or ".join(sorted(roots))
        raise Invalid(f"{at}: a path starts with {known}, not with {root[:80]!r}", field=at)
    return (root, *(name or int(index) for name, index in _STEP.findall(rest)))


def _filter(text: str, start: int, at: str) -> tuple[Callable[[Json, str], Json], int]:
    if found := _JSON.match(text, start):
        return _as_json, found.end()
    if found := _DEFAULT.match(text, start):
        literal, end = _literal(text, found.end(), at)
        if closed := _CLOSED.match(text, end):
            return lambda value, _: literal if value is MISSING else value, closed.end()
        _refuse(text, end, "`)` was expected", at)
    return _refuse(text, start, "`}}`, `| json` or `| default(…)` was expected", at)


def _literal(text: str, start: int, at: str) -> tuple[Json, int]:
    try:
        literal, end = _DECODER.raw_decode(text, start)
        jsonb.encode(literal, at)
    except (ValueError, RecursionError, Invalid):
        _refuse(text, start, "a JSON literal was expected", at)
    return literal, end


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _as_json(value: Json, at: str) -> Json:
    if value is MISSING:
        return value
    words = jsonb.encode(value, at)
    if len(words) > MOST_BYTES:
        _refuse_size(at)
    return words


def _filled(body: Json, filling: _Filling) -> Json:
    if isinstance(body, _Text):
        return filling.fill(body)
    if isinstance(body, dict):
        return {name: _filled(inner, filling) for name, inner in body.items()}
    if isinstance(body, list):
        return [_filled(inner, filling) for inner in body]
    return body


def _plain(name: str, at: str) -> str:
    if "{{" in name:
        raise Invalid(f"{at}: a name of a member cannot hold tags", field=at)
    return name


def _measure(value: Json, at: str) -> None:
    if len(jsonb.encode(value, at).encode()) > MOST_BYTES:
        _refuse_size(at)


def _spelled(path: Path) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps)[1:80]


def _refuse(text: str, position: int, why: str, at: str) -> NoReturn:
    near = text[position : position + 20]
    raise Invalid(f"{at}: {why} at character {position + 1}, near {near!r}", field=at)


def _refuse_size(at: str) -> NoReturn:
    raise Invalid(f"{at} is larger than {MOST_BYTES // 1024} KiB", field=at)
