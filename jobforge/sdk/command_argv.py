"""The argument list of a command: a template in which `{name}` stands for a value of the payload.

Each element of the template becomes exactly one argument: nothing is split, and no shell reads it.
A value cannot become an option either: a value that starts with "-" is refused, unless a literal
"--" precedes it or its own element starts with a literal.
"""

import json
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobforge.errors import Invalid, InvalidPayload, Json

Part = tuple[str, str | None]  # a literal, and the name of the value that follows it

_LONGEST = 128 * 1024  # the limit of Linux for one argument (MAX_ARG_STRLEN)


@dataclass(frozen=True, slots=True)
class Element:
    parts: tuple[Part, ...]
    may_be_option: bool  # the argument may start with "-"

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.parts if name is not None]

    def render(self, values: Mapping[str, Json]) -> str:
        text = "".join(
            literal + (_text(name, values) if name is not None else "")
            for literal, name in self.parts
        )
        if text.startswith("-") and not self.may_be_option:
            name = self.names[0]
            raise InvalidPayload(f'{name} must not start with "-"', field=name)
        if len(text.encode()) >= _LONGEST:
            raise InvalidPayload("An argument is longer than 128 KiB", field=self.names[0])
        return text


@dataclass(frozen=True, slots=True)
class ArgvTemplate:
    """A complete argument list; `program` is literal."""

    program: str
    elements: tuple[Element, ...]

    @property
    def names(self) -> list[str]:
        """Names of the values that the template uses, without duplicates."""
        return list(dict.fromkeys(name for element in self.elements for name in element.names))

    def render(self, values: Mapping[str, Json]) -> list[str]:
        """Return the argument list; raise InvalidPayload with the field of an unusable value."""
        return [self.program, *(element.render(values) for element in self.elements)]


def read_template(argv: Sequence[str]) -> ArgvTemplate:
    """Parse a template; raise Invalid for a malformed one.

    The error is Invalid, not InvalidPayload: the programmer writes the template, not the payload.
    """
    if isinstance(argv, str) or not argv or not all(isinstance(word, str) for word in argv):
        raise Invalid("argv must be a list of strings: a program and its arguments", field="argv")
    if any("\0" in word for word in argv):
        raise Invalid("argv must not contain the NUL character", field="argv")
    elements: list[Element] = []
    options_are_over = False
    for word in argv[1:]:
        parts = _parts(word)
        starts_literally = bool(parts and parts[0][0])
        has_values = any(name is not None for _, name in parts)
        elements.append(Element(parts, options_are_over or starts_literally or not has_values))
        options_are_over = options_are_over or word == "--"
    return ArgvTemplate(_program(argv[0]), tuple(elements))


def _program(word: str) -> str:
    if _parts(word) != (((word, None),) if word else ()) or not word:
        raise Invalid(
            "argv must start with a literal program name, not a placeholder", field="argv"
        )
    # Each job runs in its own empty folder, so a relative path finds nothing.
    if "/" in word and not word.startswith("/"):
        raise Invalid(f"{word} must be a plain name or an absolute path", field="argv")
    return word


def _parts(word: str) -> tuple[Part, ...]:
    try:
        parsed = list(string.Formatter().parse(word))
    except ValueError as error:
        raise Invalid(f"{word!r} is not a valid template: {error}", field="argv") from error
    for _, name, form, conversion in parsed:
        if name is not None and (not name.isidentifier() or form or conversion):
            raise Invalid(f"{word!r}: placeholders must have the form {{name}}", field="argv")
    return tuple((literal, name) for literal, name, _, _ in parsed)


def _text(name: str, values: Mapping[str, Json]) -> str:
    value = values.get(name)
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if not isinstance(value, str):
        raise InvalidPayload(f"{name} must be a string, a number, true or false", field=name)
    if "\0" in value:
        raise InvalidPayload(f"{name} must not contain the NUL character", field=name)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidPayload(f"{name} contains half of a surrogate pair", field=name) from error
    return value
