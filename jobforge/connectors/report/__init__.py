"""Rows as files that people open: CSV, HTML, JSON.

Pure: rows in, pieces of bytes out, one after the other, so a report is never in memory as a whole.
What is in the rows may come from anybody, and the programs that open the files believe a lot:
escape.py takes care of that.
"""

from jobforge.connectors.report.csv import write_csv
from jobforge.connectors.report.html import write_html
from jobforge.connectors.report.json import write_json
from jobforge.connectors.report.table import Column, ReportRow, Table, infer_columns

__all__ = ["Column", "ReportRow", "Table", "infer_columns", "write_csv", "write_html", "write_json"]
