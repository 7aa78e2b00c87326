"""JSON as it is kept, whatever its numbers are like: what orjson refuses, written by hand.

orjson knows integers of 64 bits. A payload that was enqueued by SQL may hold longer ones, and a
claim that cannot be answered would cost its jobs their attempts.
"""

import dataclasses
import json
from collections.abc import Callable
from decimal import Decimal

Leaf = Callable[[object], bytes]


def written(value: object, leaf: Leaf) -> bytes:
    """`leaf` writes what has no parts."""
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return format(Decimal(value), "f").encode()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        value = {name: getattr(value, name) for name in names}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        members = (
            json.dumps(str(name)).encode() + b":" + written(inner, leaf)
            for name, inner in value.items()
        )
        return b"{" + b",".join(members) + b"}"
    if isinstance(value, list | tuple):
        return b"[" + b",".join(written(inner, leaf) for inner in value) + b"]"
    return leaf(value)
