"""Templates: a job's payload with tags for values of an event or a schedule.

    {{ path(.name | [n])* (| default(JSON) | json)* }}

The language has no attributes, calls or loops. Tags are allowed in the strings of a JSON value, not
in its keys. A string that consists of one tag becomes the value itself, such as a number or object;
within other text, a value that is not a string is written as JSON. A path without a value is an
error unless the tag has a default. Rendered values are never parsed as templates.

To render a template repeatedly, parse it once.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from jobforge.errors import Invalid, Json
from jobforge.types import jsonb

MOST_BYTES = 256 * 1024  # of a template, and of its rendered value
MOST_TAGS = 1000
MOST_FILTERS = 4
DEEPEST = 64  # the engine's limit
UNREADABLE = "$unreadable"  # the engine returns this key instead of a value that is too long
SCHEDULE_ROOTS = ("schedule",)  # first step of the paths in a schedule's payload

Path = tuple[str | int, ...]
# The result for a path without a value. None is a JSON value.
MISSING = object()


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template: the same JSON value with its strings split into text and tags."""

    body: Json
    field: str

    def render(self, values: Mapping[str, Json]) -> Json:
        """Return the value with its tags replaced; raise Invalid with the path of a fault."""
        rendered = _render_body(self.body, _Renderer(values))
        _check_size(rendered, self.field)
        return rendered


def parse(template: Json, *, field: str = "payload", roots: Collection[str] = ()) -> Template:
    """Parse a template whose paths start with one of `roots`.

    Raises Invalid with the path of the first fault.
    """
    if isinstance(template, dict) and UNREADABLE in template:
        raise Invalid(f"{field} cannot be read: {template[UNREADABLE]}", field=field)
    _check_size(template, field)
    return Template(_Parser(roots).parse(template, field, 0), field)


def check(template: Json, *, field: str = "payload", roots: Collection[str] = ()) -> None:
    """Validate a template before it is saved; raise Invalid when no values could render it."""
    parse(template, field=field, roots=roots)


def render(template: Json, values: Mapping[str, Json], *, field: str = "payload") -> Json:
    """Parse and render a template; raise Invalid with the path of a fault."""
    return parse(template, field=field).render(values)


def read_path(text: str, *, field: str, roots: Collection[str] = ()) -> Path:
    """Return the steps of a path such as `event.items[0].sku`."""
    match = _PATH.fullmatch(text)
    if match is None:
        raise Invalid(f"{field}: {text[:80]!r} is not a path such as event.items[0]", field=field)
    return _steps(match, field, roots)


def look_up(path: Path, values: Mapping[str, Json]) -> Json:
    """Return the value at the path, by object members and list elements only, or MISSING."""
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
class _TaggedText:
    """A string with tags."""

    field: str
    parts: tuple[str | _Tag, ...]


@dataclass(slots=True)
class _Renderer:
    """One rendering: the values, and the remaining budget of rendered bytes."""

    values: Mapping[str, Json]
    remaining_bytes: int = MOST_BYTES

    def render_text(self, text: _TaggedText) -> Json:
        if len(text.parts) == 1 and isinstance(text.parts[0], _Tag):
            return self._resolve(text.parts[0], text.field)[0]
        return "".join(
            part if isinstance(part, str) else self._render_as_text(part, text.field)
            for part in text.parts
        )

    def _render_as_text(self, tag: _Tag, at: str) -> str:
        value, encoded = self._resolve(tag, at)
        return value if isinstance(value, str) else encoded

    def _resolve(self, tag: _Tag, at: str) -> tuple[Json, str]:
        value = look_up(tag.path, self.values)
        for apply in tag.filters:
            value = apply(value, at)
        if value is MISSING:
            raise Invalid(
                f"{at}: {_format_path(tag.path)} not found, and the tag has no default", field=at
            )
        encoded = jsonb.encode(value, at)
        self.remaining_bytes -= len(encoded)
        if self.remaining_bytes < 0:
            _refuse_size(at)
        return value, encoded


@dataclass(slots=True)
class _Parser:
    """One parsing: the allowed roots of paths, and the number of tags so far."""

    roots: Collection[str]
    tag_count: int = field(default=0)

    def parse(self, value: Json, at: str, depth: int) -> Json:
        if depth > DEEPEST:
            raise Invalid(f"{at} is nested more than {DEEPEST} levels deep", field=at)
        if isinstance(value, str):
            return self._parse_text(value, at)
        if isinstance(value, dict):
            return {
                _check_member_name(name, at): self.parse(inner, f"{at}.{name}", depth + 1)
                for name, inner in value.items()
            }
        if isinstance(value, list):
            return [self.parse(inner, f"{at}.{n}", depth + 1) for n, inner in enumerate(value)]
        return value

    def _parse_text(self, text: str, at: str) -> str | _TaggedText:
        parts: list[str | _Tag] = []
        end = 0
        while (start := text.find("{{", end)) >= 0:
            if start > end:
                parts.append(text[end:start])
            tag, end = self._parse_tag(text, start, at)
            parts.append(tag)
        if not parts:
            return text
        if end < len(text):
            parts.append(text[end:])
        return _TaggedText(at, tuple(parts))

    def _parse_tag(self, text: str, start: int, at: str) -> tuple[_Tag, int]:
        self.tag_count += 1
        if self.tag_count > MOST_TAGS:
            raise Invalid(f"{at}: a template can have at most {MOST_TAGS} tags", field=at)
        found = _PATH.match(text, start + 2)
        if found is None:
            _refuse(text, start + 2, "expected a path", at)
        path, position = _steps(found, at, self.roots), found.end()
        filters: list[Callable[[Json, str], Json]] = []
        while not text.startswith("}}", position):
            if len(filters) == MOST_FILTERS:
                _refuse(text, position, f"expected at most {MOST_FILTERS} filters", at)
            apply, position = _filter(text, position, at)
            filters.append(apply)
        return _Tag(path, tuple(filters)), position + 2


# Each repetition starts with a distinct character, so matching takes linear time.
_PATH = re.compile(r"\s*([\w-]+)((?:\.[\w-]+|\[[0-9]{1,9}\])*)\s*")
_STEP = re.compile(r"\.([\w-]+)|\[([0-9]+)\]")
_JSON = re.compile(r"\|\s*json\s*")
_DEFAULT = re.compile(r"\|\s*default\s*\(\s*")
_CLOSED = re.compile(r"\s*\)\s*")


def _steps(match: re.Match[str], at: str, roots: Collection[str]) -> Path:
    root, rest = match.groups()
    if roots and root not in roots:
        known = " or ".join(sorted(roots))
        raise Invalid(f"{at}: a path must start with {known}, not {root[:80]!r}", field=at)
    return (root, *(name or int(index) for name, index in _STEP.findall(rest)))


def _filter(text: str, start: int, at: str) -> tuple[Callable[[Json, str], Json], int]:
    if found := _JSON.match(text, start):
        return _encode_json, found.end()
    if found := _DEFAULT.match(text, start):
        literal, end = _literal(text, found.end(), at)
        if closed := _CLOSED.match(text, end):
            return lambda value, _: literal if value is MISSING else value, closed.end()
        _refuse(text, end, "expected `)`", at)
    return _refuse(text, start, "expected `}}`, `| json` or `| default(…)`", at)


def _literal(text: str, start: int, at: str) -> tuple[Json, int]:
    try:
        literal, end = _DECODER.raw_decode(text, start)
        jsonb.encode(literal, at)
    except (ValueError, RecursionError, Invalid):
        _refuse(text, start, "expected a JSON literal", at)
    return literal, end


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _encode_json(value: Json, at: str) -> Json:
    if value is MISSING:
        return value
    encoded = jsonb.encode(value, at)
    if len(encoded) > MOST_BYTES:
        _refuse_size(at)
    return encoded


def _render_body(body: Json, renderer: _Renderer) -> Json:
    if isinstance(body, _TaggedText):
        return renderer.render_text(body)
    if isinstance(body, dict):
        return {name: _render_body(inner, renderer) for name, inner in body.items()}
    if isinstance(body, list):
        return [_render_body(inner, renderer) for inner in body]
    return body


def _check_member_name(name: str, at: str) -> str:
    if "{{" in name:
        raise Invalid(f"{at}: member names cannot contain tags", field=at)
    return name


def _check_size(value: Json, at: str) -> None:
    if len(jsonb.encode(value, at).encode()) > MOST_BYTES:
        _refuse_size(at)


def _format_path(path: Path) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps)[1:80]


def _refuse(text: str, position: int, why: str, at: str) -> NoReturn:
    near = text[position : position + 20]
    raise Invalid(f"{at}: {why} at character {position + 1}, near {near!r}", field=at)


def _refuse_size(at: str) -> NoReturn:
    raise Invalid(f"{at} is larger than {MOST_BYTES // 1024} KiB", field=at)
