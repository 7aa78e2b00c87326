"""Define the commands of a module, with options that many commands share (shared_options.py)."""

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.main import get_command, get_group

from jobforge.cli.context import CommandContext
from jobforge.cli.options import TYPER_SETTINGS
from jobforge.cli.shared_options import OptionSets

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])


class CommandGroup:
    """The commands of a module. `options` are the shared options of commands without their own.

    A command's function can take a CommandContext, which has the values of the shared options.
    """

    def __init__(self, options: OptionSets = ()) -> None:
        self._app = typer.Typer(no_args_is_help=True, **TYPER_SETTINGS)
        self._default = options
        self._options: list[OptionSets] = []  # in the order of the commands
        self._callback_options: OptionSets = ()

    def command(
        self,
        name: str | None = None,
        *,
        options: OptionSets | None = None,
        **settings: Any,  # noqa: ANN401 - settings of any type
    ) -> Callable[[CommandFunction], CommandFunction]:
        """Decorate the function of a command."""
        self._options.append(self._default if options is None else options)
        return self._app.command(name, **settings)

    def callback(self, *, options: OptionSets) -> Callable[[CommandFunction], CommandFunction]:
        """Decorate the function that runs without a command of the group."""
        self._callback_options = options
        return self._app.callback(invoke_without_command=True, no_args_is_help=False)

    def build_command(self) -> Any:  # noqa: ANN401 - typer does not export the class
        """Return the only command of this module."""
        command, [options] = get_command(self._app), self._options
        _add_options(command, options)
        return command

    def build_group(self, summary: str) -> Any:  # noqa: ANN401 - typer does not export the class
        group = get_group(self._app)
        group.help = group.help or summary
        _add_options(group, self._callback_options)
        for command, options in zip(group.commands.values(), self._options, strict=True):
            _add_options(command, options)
        return group


def _add_options(command: Any, options: OptionSets) -> None:  # noqa: ANN401 - typer does not export the class
    """Add shared options to a command, without those of its names that its own options have."""
    shared = [option for declare in options for option in _build_options(declare)]
    taken = {name for option in command.params for name in option.opts}
    for option in shared:
        option.opts = [name for name in option.opts if name not in taken]
    command.params += shared
    command.context_class = CommandContext
    command.callback = _drop_arguments(command.callback, {option.name for option in shared})


def _build_options(declare: Callable[..., None]) -> list[Any]:
    app = typer.Typer(**TYPER_SETTINGS)
    app.command()(declare)
    return list(get_command(app).params)


def _drop_arguments(
    function: Callable[..., Any] | None, names: set[str]
) -> Callable[..., Any] | None:
    if function is None:
        return None

    def call(**arguments: Any) -> Any:  # noqa: ANN401 - as the function
        return function(**{name: arguments[name] for name in arguments if name not in names})

    return call
