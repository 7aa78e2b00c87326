"""`jobforge completion`: print a shell completion script."""

from typing import Annotated

import typer
from typer._completion_shared import get_completion_script

from jobforge.cli.command_group import CommandGroup
from jobforge.errors import Invalid

SHELLS = ("bash", "zsh", "fish", "powershell")
_PROGRAMS = ("jobforge", "jf")

app = CommandGroup()


@app.command()
def completion(
    shell: Annotated[str, typer.Argument(metavar="|".join(SHELLS), help="Shell of the script.")],
) -> None:
    """Print a shell completion script.

    For bash, add to ~/.bashrc: eval "$(jobforge completion bash)"
    """
    if shell not in SHELLS:
        raise Invalid(f"Unsupported shell {shell!r}", hint=f"Use one of {', '.join(SHELLS)}")
    for program in _PROGRAMS:
        variable = f"_{program.upper()}_COMPLETE"
        script = get_completion_script(prog_name=program, complete_var=variable, shell=shell)
        typer.echo(f"{script}\n")
