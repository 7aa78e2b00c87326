"""A call's SQL for drivers whose parameters are $1, $2, …, as asyncpg's are."""

import re
from functools import lru_cache
from itertools import count


@lru_cache(maxsize=100)
def to_positional(sql: str) -> str:
    """JSON goes as text: a connection may have a codec of its own that would encode it again."""
    numbers = count(1)
    numbered = re.sub("%s", lambda _: f"${next(numbers)}", sql)
    return re.sub(r"(\$\d+)::jsonb", r"\1::text::jsonb", numbered)
