"""Rows as files that people open: CSV, HTML, JSON.

Pure: rows in, pieces of bytes out, one after the other, so a report is never in memory as a whole.
What is in the rows may come from anybody, and the programs that open the files believe a lot:
safe.py takes care of that.
"""

from jobforge.report.as_csv import write_csv
from jobforge.report.as_html import write_html
from jobforge.report.as_json import write_json
from jobforge.report.table import Column, Row, Table, columns_of

__all__ = ["Column", "Row", "Table", "columns_of", "write_csv", "write_html", "write_json"]
