"""Writes rows as CSV, HTML or JSON files.

Pure functions: they take rows and yield chunks of bytes, so a report is never in memory as a whole.
Rows may have untrusted text, which spreadsheets and browsers would execute or misrender; escape.py
escapes it.
"""

from jobforge.connectors.report.csv import write_csv
from jobforge.connectors.report.html import write_html
from jobforge.connectors.report.json import write_json
from jobforge.connectors.report.table import Column, ReportRow, Table, infer_columns

__all__ = ["Column", "ReportRow", "Table", "infer_columns", "write_csv", "write_html", "write_json"]
