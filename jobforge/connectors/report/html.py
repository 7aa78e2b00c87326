"""HTML with one table and nothing active: no script, no external resource, all text escaped."""

import base64
import hashlib
from collections.abc import Iterator
from html import escape

from jobforge.connectors.report.escape import escape_invisible
from jobforge.connectors.report.table import Table, format_cell
from jobforge.errors import Json

_STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;margin:2rem;color:#1a1a1a;background:#fff}"
    "table{border-collapse:collapse}th,td{border:1px solid #ccc;padding:.3rem .6rem;"
    "text-align:start;vertical-align:top;white-space:pre-wrap}th{background:#f3f3f3}"
)
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'"
_ROWS_IN_PIECE = 500


def write_html(table: Table) -> Iterator[bytes]:
    title = _escape_text(table.title or "Report")
    yield (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{title}</h1>\n<table>\n<thead><tr>{_headings(table)}</tr></thead>\n<tbody>\n"
    ).encode()
    batch: list[str] = []
    for row in table:
        batch.append("<tr>" + "".join(map(_cell, row)) + "</tr>\n")
        if len(batch) == _ROWS_IN_PIECE:
            yield "".join(batch).encode()
            batch = []
    note = f"<p>The first {table.count:,} rows; there are more.</p>\n" if table.is_truncated else ""
    yield f"{''.join(batch)}</tbody>\n</table>\n{note}</body>\n</html>\n".encode()


def _headings(table: Table) -> str:
    return "".join(f'<th scope="col">{_escape_text(column.title)}</th>' for column in table.columns)


def _cell(value: Json) -> str:
    return f'<td dir="auto">{_escape_text(format_cell(value))}</td>'


def _escape_text(text: str) -> str:
    return escape(escape_invisible(text))
