"""Converts the `%s` placeholders of a call's SQL to `$1`, `$2`, …, as asyncpg requires."""

import re
from functools import lru_cache
from itertools import count


@lru_cache(maxsize=100)
def to_positional(sql: str) -> str:
    """Number the placeholders, and pass JSON parameters as text.

    A JSON codec of the connection would encode a jsonb parameter a second time.
    """
    numbers = count(1)
    numbered = re.sub("%s", lambda _: f"${next(numbers)}", sql)
    return re.sub(r"(\$\d+)::jsonb", r"\1::text::jsonb", numbered)
