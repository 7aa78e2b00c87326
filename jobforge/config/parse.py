"""Parsers for values of settings from options, variables and TOML."""

import re
from collections.abc import Callable
from pathlib import Path

from jobforge.errors import Json

Parser = Callable[[Json], Json]


_NO_USER = 2**32 - 1  # "unchanged" in system calls


class InvalidValue(ValueError):
    """Describes the value that was expected."""


def text(value: Json) -> str:
    if not isinstance(value, str):
        raise InvalidValue(f"a string, not {value!r}")
    return value


def path(value: Json) -> Path:
    return value if isinstance(value, Path) else Path(text(value))


def boolean(value: Json) -> bool:
    if isinstance(value, bool):
        return value
    lowered = value.strip().lower() if isinstance(value, str) else ""
    if lowered not in _BOOLEANS:
        raise InvalidValue(f"true or false, not {value!r}")
    return _BOOLEANS[lowered]


_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def whole(low: int, high: int) -> Parser:
    expected = f"a whole number from {low:,} to {high:,}"
    return lambda value: _number(value, int, (int, str), (low, high), expected)


def seconds(low: float, high: float) -> Parser:
    expected = f"a number of seconds from {low:g} to {high:g}"
    return lambda value: _number(value, float, (int, float, str), (low, high), expected)


def _number(
    value: Json,
    convert: Callable[[Json], float],
    kinds: tuple[type, ...],
    limits: tuple[float, float],
    expected: str,
) -> float:
    wrong = InvalidValue(f"{expected}, not {value!r}")
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise wrong
    try:
        number = convert(value)
    except ValueError:
        raise wrong from None
    if not limits[0] <= number <= limits[1]:  # also refuses NaN
        raise wrong
    return number


def user_range(value: Json) -> tuple[int, int]:
    """Parse a range of user IDs such as 200000-265535; at least two, none of them root's."""
    match = re.fullmatch(r"(\d{1,10})-(\d{1,10})", str(value))
    first, last = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 0 < first < last < _NO_USER:
        raise InvalidValue(f"a range of user IDs such as 200000-265535, not {value!r}")
    return first, last


def one_of(*choices: str) -> Parser:
    def parse(value: Json) -> str:
        if not isinstance(value, str) or value.lower() not in choices:
            raise InvalidValue(f"one of {', '.join(choices)}, not {value!r}")
        return value.lower()

    return parse


def names(pattern: str) -> Parser:
    def parse(value: Json) -> tuple[str, ...]:
        names = _items(value)
        for name in names:
            if not re.fullmatch(pattern, name):
                raise InvalidValue(f"a list of names; {name!r} is not a valid name")
        return tuple(names)

    return parse


def _items(value: Json) -> list[str]:
    """Return the items of a TOML list or a comma-separated string."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise InvalidValue(f"a list of strings, not {value!r}")
    return [item.strip() for item in value if item.strip()]


def queues(value: Json) -> dict[str, int | None]:
    queues: dict[str, int | None] = {}
    for item in _items(value):
        # Names of queues may contain colons.
        name, _, slots = item.rpartition(":") if re.search(r":\d+\Z", item) else (item, "", None)
        if not re.fullmatch(_QUEUE_NAME, name):
            raise InvalidValue(f"a list such as mail:10,default:4, not {item!r}")
        if name in queues:
            raise InvalidValue(f"a list of different queues; {name} occurs twice")
        queues[name] = None if slots is None else whole(1, 100_000)(slots)
    return queues


def tables(value: Json) -> dict[str, dict[str, Json]]:
    if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
        raise InvalidValue("tables in jobforge.toml, such as [commands.thumbnail]")
    return value


def origin(value: Json) -> str:
    given = text(value).rstrip("/").lower()
    if not re.fullmatch(r"https?://[a-z0-9.:\[\]-]+", given):
        raise InvalidValue(f"a scheme and host, such as https://jobs.example.com, not {value!r}")
    return given


def origins(value: Json) -> tuple[str, ...]:
    return tuple(origin(item) for item in _items(value))


def secret(value: Json) -> str:
    if len(text(value)) < _SHORTEST_SECRET:
        raise InvalidValue(f"a secret of at least {_SHORTEST_SECRET} characters")
    return text(value)


def algorithms(value: Json) -> tuple[str, ...]:
    names = _items(value)
    for name in names:
        if name not in _ALGORITHMS:
            raise InvalidValue(f"a list of {', '.join(_ALGORITHMS)}; {name!r} is not supported")
    if len({name.startswith("HS") for name in names}) > 1:
        # Mixing both would allow a token that is signed with the public key as the secret.
        raise InvalidValue("algorithms of either a shared secret or a public key, not both")
    return tuple(names)


def roles(value: Json) -> dict[str, str]:
    """Return the role for each value of a token's claim."""
    pairs = value.items() if isinstance(value, dict) else map(_role_pair, _items(value))
    roles = {str(claim): str(role) for claim, role in pairs}
    for role in roles.values():
        if role not in _ROLES:
            raise InvalidValue(
                f"claim values with roles, such as admin:tenant_admin; {role!r} is not a role"
            )
    return roles


def _role_pair(item: str) -> tuple[str, str]:
    claim, _, role = item.rpartition(":")
    return claim or role, role


_SHORTEST_SECRET = 32
_ROLES = ("viewer", "tenant_admin", "worker", "super_admin")
_ALGORITHMS = (
    *("HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
_QUEUE_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,49}"
COMMAND_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}"
ADDRESS = r"[0-9A-Fa-f.:*/\[\]]+"
VARIABLE_PATTERN = r"\*|[A-Za-z_][A-Za-z0-9_]*\*?"
