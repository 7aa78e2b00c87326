"""Parse the --where query, which has the syntax of the dashboard's filter box.

Example: `state:dead,failed queue:mail after:1h`. A term is a name, a colon and a value; double
quotes enclose a value with spaces.
"""

import re
from collections.abc import Iterable
from typing import Any

from jobforge.cli.options import suggest_similar
from jobforge.cli.time_args import parse_time_or_age
from jobforge.errors import Invalid

_WORDS = re.compile(r'(?:[^\s"]+|"[^"]*")+')
_NAMES = (
    *("state", "definition", "queue", "tag", "source", "key", "correlation_id", "fingerprint"),
    *("created_after", "created_before"),
)
# Short names that the dashboard writes or accepts.
_OTHER_NAMES = {
    "is": "state",
    "def": "definition",
    "corr": "correlation_id",
    "fp": "fingerprint",
    "after": "created_after",
    "since": "created_after",
    "before": "created_before",
}


def parse_query(text: str, states: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a JobFilter: a list for `state`, times for `created_*`, strings.

    Raises Invalid for an unknown or repeated term.
    """
    if text.count('"') % 2:
        raise Invalid(f"Unclosed quote in --where: {text}", field="where")
    known, fields = tuple(states), dict[str, Any]()
    for word in _WORDS.findall(text):
        name, value = _parse_term(word)
        if name == "state":
            fields.setdefault(name, []).extend(
                _parse_state(each, known) for each in value.split(",")
            )
        elif name in fields:
            raise Invalid(f"Duplicate term '{name}:' in --where", field="where")
        elif name.startswith("created_"):
            fields[name] = parse_time_or_age(value, f"'{name}:' in --where")
        else:
            fields[name] = value
    return fields


def _parse_term(word: str) -> tuple[str, str]:
    label, colon, quoted = word.partition(":")
    name = _OTHER_NAMES.get(label.lower(), label.lower())
    if not colon or name not in _NAMES:
        near = suggest_similar(f"{name}:", (f"{each}:" for each in (*_NAMES, *_OTHER_NAMES)))
        known = f"Valid terms: {', '.join(f'{each}:' for each in _NAMES)}"
        raise Invalid(
            f"Invalid term {word!r} in --where",
            field="where",
            hint=f"{near} {known}" if near else known,
        )
    value = quoted.replace('"', "")
    if not value:
        raise Invalid(
            f"Missing value for '{name}:' in --where", field="where", hint=f"Write {name}:VALUE"
        )
    return name, value


def _parse_state(text: str, known: tuple[str, ...]) -> str:
    if text not in known:
        raise Invalid(
            f"'state:' in --where must be one of {', '.join(known)}, not {text!r}",
            field="where",
            hint=suggest_similar(text, known),
        )
    return text
