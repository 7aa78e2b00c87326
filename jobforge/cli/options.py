"""Options that several commands share."""

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
App = Annotated[
    str | None,
    typer.Argument(metavar="[APP]", help="app.py, app.py:name, package.module; else app.py."),
]
Payload = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME=TEXT | NAME:=JSON | @FILE]...",
        help="The payload. @FILE holds a JSON object; @- is stdin.",
    ),
]

# Tells a worker to drain when its stdin closes: so it ends when whoever started it ends.
UNTIL_STDIN_CLOSES = "--until-stdin-closes"
INTRODUCE = "--introduce"
MetricsPort = Annotated[
    str | None,
    typer.Option(metavar="PORT", help="Show metrics for Prometheus there; see metrics_host."),
]
