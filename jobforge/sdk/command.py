"""Definitions whose jobs run a program instead of a Python function.

Declared in code (`jf.command`) or in jobforge.toml (`[commands.<key>]`). A worker serves only the
commands that its own configuration allows. The program runs like any job: in a separate process,
under its limits, with its output stored.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pydantic_core import ValidationError

from jobforge.errors import ConfigError, Invalid, InvalidPayload, Json
from jobforge.payloads.signature import Arguments, Parameters, Shape, error_from_validation
from jobforge.sdk.command_argv import ArgvTemplate, read_template
from jobforge.sdk.definition import Definition
from jobforge.sdk.definition_settings import DefinitionSettings
from jobforge.sdk.engine_client import EngineClient
from jobforge.sdk.hooks import Hooks
from jobforge.sdk.verdict import ProcessExit, Verdict
from jobforge.types.jobs import Outcome
from jobforge.types.jsonb import decode

if TYPE_CHECKING:
    import jsonschema_rs
    from pydantic import BaseModel

    from jobforge.payloads.schema_validation import Validator

JsonSchema = dict[str, Json]
ParametersSource: TypeAlias = "JsonSchema | type[BaseModel] | None"

T = TypeVar("T")


class Command(Definition[..., dict[str, Json]]):
    """A definition with a program. The result of a job is its exit code and, on request, stdout."""

    has_handler = False

    def __init__(  # noqa: PLR0913 - one parameter per part of the declaration
        self,
        settings: DefinitionSettings,
        argv: Sequence[str],
        parameters: ParametersSource,
        client: EngineClient,
        app_hooks: Hooks,
        *,
        returns_stdout: bool = False,
    ) -> None:
        if settings.isolation != "process":
            raise Invalid(
                "A command cannot run inline, because it is a separate process", field="isolation"
            )
        self.argv = read_template(argv)
        self.returns_stdout = returns_stdout
        self.parameters = _parameters(self.argv, parameters)
        super().__init__(_placeholder_function, settings, client, app_hooks)

    def registration(self) -> dict[str, Json]:
        return {**super().registration(), "command": True}

    def render(self, arguments: Mapping[str, Json]) -> list[str]:
        """Return the argument list; raise InvalidPayload for a value that cannot be an argument."""
        return self.argv.render(arguments)

    def verdict_from_exit(self, process_exit: ProcessExit) -> Verdict | None:
        """Return the verdict for the exit code; None when a signal ended the program."""
        if process_exit.code is None:
            return None
        if process_exit.code == 0:
            return Verdict(Outcome.SUCCEEDED, {"exit_code": 0})
        message = f"{self._program} exited with code {process_exit.code}"
        error = {"type": "CommandFailed", "message": message, "exit_code": process_exit.code}
        return Verdict(Outcome.FAILED, error=error)

    def add_stdout(self, verdict: Verdict, stdout: str | None) -> Verdict:
        """Return the verdict of an attempt with this redacted output, if its result contains it."""
        if not self.returns_stdout or verdict.outcome is not Outcome.SUCCEEDED:
            return verdict
        return replace(verdict, result={**verdict.result, "stdout": stdout or ""})

    def verdict_from_start_error(self, error: Exception) -> Verdict:
        """Fail without retry: the program does not exist or cannot be run."""
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        message = f"Cannot run {self._program}: {reason}"
        return Verdict(
            Outcome.FAILED, error={"type": "CommandNotStarted", "message": message}, final=True
        )

    @property
    def _program(self) -> str:
        return os.path.basename(self.argv.program)  # noqa: PTH119 - a plain string, not a path on disk


@dataclass(frozen=True, slots=True)
class CommandParameters(Parameters):
    """Validates the payloads of a command."""

    document: JsonSchema
    validator: "Validator"
    payload_model: "type[BaseModel] | None"

    def build_payload(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Json]:
        payload = self.bind(args, kwargs)
        self.read_arguments(payload)
        return payload

    def read_arguments(self, payload: dict[str, Json]) -> Arguments:
        """Validate the payload and return it with defaults for omitted fields."""
        if self.payload_model is not None:
            try:
                return self.payload_model.model_validate(payload).model_dump(mode="json")
            except ValidationError as error:
                # The cause would show the values, which may be secrets.
                raise error_from_validation(error) from None
        for fault in self.validator.iter_errors(payload):
            path = ".".join(map(str, fault.instance_path))
            raise InvalidPayload(f"{path or 'the payload'}: {_rule(fault)}", field=path or None)
        return {**_defaults(self.document), **payload}

    def read_json_arguments(self, payload_json: str) -> Arguments:
        return self.read_arguments(decode(payload_json))

    def schema(self) -> JsonSchema:
        return self.document


def add_commands(add: Callable[..., Command], tables: Mapping[str, Mapping[str, Json]]) -> None:
    """Declare `[commands.<key>]` of jobforge.toml by `jf.command`; raise ConfigError."""
    for key, table in tables.items():
        try:
            add(key, **{"argv": (), **table})
        except TypeError as error:
            unknown = str(error).rpartition(" ")[2]
            message = f"Unknown setting {unknown} in commands.{key}"
            raise ConfigError(message, field=f"commands.{key}") from error
        except Invalid as error:
            field = f"commands.{key}"
            raise ConfigError(f"{field}: {error.message}", field=field) from error


def filter_servable(definitions: Iterable[T], allowed: Collection[str]) -> list[T]:
    """Return the definitions without the commands that this worker does not allow."""
    return [
        definition
        for definition in definitions
        if not isinstance(definition, Command) or definition.settings.key in allowed
    ]


def _placeholder_function() -> dict[str, Json]:
    """Provide the result type of a command; the program runs instead of it."""
    raise NotImplementedError


def _parameters(template: ArgvTemplate, given: ParametersSource) -> CommandParameters:
    schema = _schema(template, given)
    _check_names(template, schema)
    return CommandParameters(
        names=tuple(schema.get("properties", ())),
        shape=Shape(dict[str, Any]),
        model=None,
        positional=len(schema.get("properties", ())),
        document=schema,
        validator=_validator(schema),
        payload_model=given if isinstance(given, type) else None,
    )


def _schema(template: ArgvTemplate, given: ParametersSource) -> JsonSchema:
    if given is None:
        properties = {name: {"type": "string"} for name in template.names}
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
    if isinstance(given, dict):
        return {"type": "object", "additionalProperties": False, **given}
    return given.model_json_schema()


def _check_names(template: ArgvTemplate, schema: JsonSchema) -> None:
    """Raise Invalid unless every payload has a value for each name in the template."""
    properties = schema.get("properties", {})
    guaranteed = {*schema.get("required", ()), *_defaults(schema)}
    for name in template.names:
        if name not in properties:
            raise Invalid(f"argv uses {{{name}}}, which is not a parameter", field="parameters")
        if name not in guaranteed:
            raise Invalid(
                f"argv uses {{{name}}}, which is optional; require it or add a default",
                field="parameters",
            )


def _defaults(schema: JsonSchema) -> dict[str, Json]:
    properties = schema.get("properties", {}).items()
    return {name: rules["default"] for name, rules in properties if "default" in rules}


def _validator(schema: JsonSchema) -> "Validator":
    from jobforge.payloads.schema_validation import compile_schema  # noqa: PLC0415 - needed only for commands

    try:
        return compile_schema(schema)
    except Invalid as error:
        reason = error.message.splitlines()[0]
        raise Invalid(
            f"parameters is not a valid JSON Schema: {reason}", field="parameters"
        ) from error


def _rule(fault: "jsonschema_rs.ValidationError") -> str:
    """Return the violated rule without the value, which may be a secret."""
    return f"does not match its schema ({'.'.join(map(str, fault.schema_path))})"
