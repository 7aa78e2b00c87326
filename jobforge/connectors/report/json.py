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
    gathered: list[bytes] = []
    before = b"\n"
    for row in table:
        gathered.append(before + _encode_json(dict(zip(names, row, strict=True))))
        before = b",\n"
        if len(gathered) == _ROWS_IN_PIECE:
            yield b"".join(gathered)
            gathered = []
    yield b"".join(gathered) + b"\n]}\n"


def _encode_json(value: Json) -> bytes:
    return orjson.dumps(value, default=str)
