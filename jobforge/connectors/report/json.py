"""JSON with unchanged values and one row per line, so that it can be read line by line."""

from collections.abc import Iterator

import orjson

from jobforge.connectors.report.table import Table
from jobforge.errors import Json

_ROWS_IN_PIECE = 500


def write_json(table: Table) -> Iterator[bytes]:
    names = [column.title for column in table.columns]
    yield b'{"title": %b, "columns": %b, "rows": [' % (
        _encode_json(table.title),
        _encode_json(names),
    )
    batch: list[bytes] = []
    separator = b"\n"
    for row in table:
        batch.append(separator + _encode_json(dict(zip(names, row, strict=True))))
        separator = b",\n"
        if len(batch) == _ROWS_IN_PIECE:
            yield b"".join(batch)
            batch = []
    yield b"".join(batch) + b"\n]}\n"


def _encode_json(value: Json) -> bytes:
    return orjson.dumps(value, default=str)
