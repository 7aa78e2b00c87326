"""Print the findings of `jobforge doctor` as text."""

from collections.abc import Iterable

import typer

from jobforge.cli import output
from jobforge.db.doctor.findings import Finding

_MARKS = {"ok": "✓", "warning": "!", "failed": "✗"}


def print_findings(findings: Iterable[Finding]) -> None:
    for finding in findings:
        typer.echo(f"{_MARKS[finding.grade]} {finding.check:<12}{output.clean(finding.message)}")
        if finding.fix:
            typer.echo(f"{'':14}{output.clean(finding.fix)}")
