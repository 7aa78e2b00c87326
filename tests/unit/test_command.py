"""Commands: how a payload becomes an argument list, and what is refused."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from attacks import Attempts
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from jobforge import JobForge
from jobforge.errors import ConfigError, Invalid, InvalidPayload
from jobforge.sdk.command import Command, add_commands, filter_servable
from jobforge.sdk.command_argv import read_template
from jobforge.sdk.verdict import ProcessExit
from jobforge.types.jobs import Outcome

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


class Thumbnail(BaseModel):
    source: str
    size: int = 64


def _command(*argv: str, parameters: Any = None, **settings: Any) -> Command:
    return JobForge().command("thumbnail", argv=argv, parameters=parameters, **settings)


def _argv(command: Command, **payload: Any) -> list[str]:
    return command.render(command.parse_arguments(1, payload))


@pytest.mark.attack("command arguments")
@given(TEXTS, TEXTS)
def test_every_element_is_one_argument_for_any_values(first: str, second: str) -> None:
    template = read_template(["echo", "--", "{first}", "<{first}|{second}>"])
    values = {"first": first, "second": second}
    assert template.render(values) == ["echo", "--", first, f"<{first}|{second}>"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(5, "5"), (-0.5, "-0.5"), (True, "true"), (10**30, "1" + "0" * 30), ("", "")],
)
def test_strings_numbers_and_booleans_are_written_as_in_json(value: Any, text: str) -> None:
    assert read_template(["p", "--", "{v}"]).render({"v": value}) == ["p", "--", text]


@pytest.mark.attack("command arguments")
@pytest.mark.parametrize("value", [None, [1], {"a": 1}, "a\0b", "\ud800", "x" * 200_000])
def test_a_value_that_cannot_be_an_argument_is_refused_with_its_name(value: Any) -> None:
    with pytest.raises(InvalidPayload) as refused:
        read_template(["p", "--", "{v}"]).render({"v": value})
    assert refused.value.field == "v"


@pytest.mark.attack("command arguments")
@pytest.mark.parametrize(
    ("argv", "value", "is_refused"),
    [
        (["p", "{v}"], "-rf", True),
        (["p", "{v}"], -5, True),
        (["p", "{v}{v}"], "-", True),
        (["p", "{v}"], "plain", False),
        (["p", "--", "{v}"], "-rf", False),
        (["p", "--size={v}"], "-rf", False),
        (["p", "{v}", "--"], "-rf", True),
    ],
)
def test_a_value_cannot_become_an_option(
    argv: list[str],
    value: Any,
    is_refused: bool,  # noqa: FBT001 - a column of the table
    attempts: Attempts,
) -> None:
    attempts(int(is_refused))
    template = read_template(argv)
    if not is_refused:
        assert template.render({"v": value})
        return
    with pytest.raises(InvalidPayload):
        template.render({"v": value})


@pytest.mark.attack("command arguments")
@pytest.mark.parametrize(
    "argv",
    [
        [],
        "echo hello",
        ["echo", 5],
        ["{program}"],
        [""],
        ["./relative"],
        ["echo", "{0}"],
        ["echo", "{}"],
        ["echo", "{a.b}"],
        ["echo", "{a!r}"],
        ["echo", "{a:>10}"],
        ["echo", "{a"],
        ["echo", "a\0b"],
    ],
)
def test_an_invalid_template_is_refused(argv: Any) -> None:
    with pytest.raises(Invalid):
        read_template(argv)


def test_doubled_braces_are_literal_braces() -> None:
    assert read_template(["p", "{{{v}}}"]).render({"v": "x"}) == ["p", "{x}"]


def test_without_parameters_every_value_is_a_required_string() -> None:
    command = _command("convert", "--", "{source}", "{target}")
    assert _argv(command, source="a b", target="c") == ["convert", "--", "a b", "c"]
    for payload in ({"source": "a"}, {"source": "a", "target": 1}, {"source": "a", "x": "b"}):
        with pytest.raises(InvalidPayload):
            command.parse_arguments(1, payload)


def test_a_schema_checks_the_payload_and_gives_defaults() -> None:
    schema = {
        "properties": {"size": {"type": "integer", "maximum": 100, "default": 7}},
    }
    command = _command("convert", "{size}", parameters=schema)
    assert _argv(command) == ["convert", "7"]
    assert _argv(command, size=9) == ["convert", "9"]
    with pytest.raises(InvalidPayload) as refused:
        command.parse_arguments(1, {"size": 101})
    assert refused.value.field == "size"
    assert "101" not in str(refused.value)


PAGE = (Path(__file__).parents[2] / "docs/commands.md").read_text(encoding="utf-8")
IMAGES = [
    *("msl:evil.png", "msl:/tmp/evil.png", "label:@/etc/passwd", "label:@/etc/passwd.png"),
    *("text:/etc/passwd", "caption:@secrets.png", "ephemeral:a.png", "@list.png", "|id.png"),
    *(
        "https://example.com/a.png",
        "//example.com/a.png:",
        "a.png[0]",
        "a.svg",
        "a.png\n",
        "../a.png",
    ),
    *("-write", "--", "a.png; id", "%d.png", "", "fd:3", "MSL:a.png", "mvg:a.png", "png:a.png"),
]


@pytest.fixture(scope="module", params=["python", "toml"])
def thumbnail(request: pytest.FixtureRequest) -> Command:
    """Return the command of the documentation's example."""
    [example] = re.findall(rf"^```{request.param}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    app = JobForge()
    if request.param == "toml":
        add_commands(app.command, tomllib.loads(example)["commands"])
    else:
        exec(example, {"jf": app})  # noqa: S102 - the documentation's own code
    command = app.definitions["thumbnail"]
    assert isinstance(command, Command)
    return command


@pytest.mark.attack("command arguments")
@pytest.mark.parametrize("name", IMAGES)
def test_the_example_of_the_page_accepts_no_imagemagick_coder(
    thumbnail: Command, name: str
) -> None:
    good = {"source": "in/a.png", "target": "out/a.png", "size": 64}
    assert _argv(thumbnail, **good)[-2:] == ["in/a.png", "out/a.png"]
    for parameter in ("source", "target"):
        with pytest.raises(InvalidPayload):
            thumbnail.parse_arguments(1, {**good, parameter: name})


def test_a_model_checks_the_payload_and_gives_defaults() -> None:
    command = _command("convert", "{source}", "{size}", parameters=Thumbnail)
    assert _argv(command, source="a") == ["convert", "a", "64"]
    with pytest.raises(InvalidPayload):
        command.parse_arguments(1, {"source": "a", "size": "many"})


@pytest.mark.attack("command arguments")
@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {}},
        {"properties": {"v": {"type": "string"}}},
        {"properties": {"v": {"type": "strange"}}, "required": ["v"]},
        {"properties": {"v": {"$ref": "file:///etc/hostname"}}, "required": ["v"]},
    ],
    ids=["unknown parameter", "may be missing", "no schema", "elsewhere"],
)
def test_unusable_parameters_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        _command("echo", "{v}", parameters=schema)


@pytest.mark.attack("command arguments")
def test_a_pattern_is_matched_in_linear_time() -> None:
    schema = {"properties": {"v": {"type": "string", "pattern": "^(a+)+$"}}, "required": ["v"]}
    with pytest.raises(InvalidPayload):
        _command("echo", "{v}", parameters=schema).parse_arguments(1, {"v": "a" * 5000 + "b"})


def test_payloads_are_checked_on_enqueue_too() -> None:
    command = _command("convert", "{source}")
    assert command.parameters.build_payload((), {"source": "a"}) == {"source": "a"}
    with pytest.raises(InvalidPayload):
        command.parameters.build_payload((), {"source": 1})


def test_its_schema_is_registered() -> None:
    registered = _command("convert", "{source}").registration()
    assert registered["parameters"]["required"] == ["source"]


def test_it_is_registered_as_a_command_for_explanations() -> None:
    assert _command("convert").registration()["command"] is True


def test_the_exit_code_decides_the_outcome() -> None:
    command = _command("/usr/bin/convert")
    done, failed = (
        command.verdict_from_exit(ProcessExit(code=0)),
        command.verdict_from_exit(ProcessExit(code=3)),
    )
    assert done is not None
    assert (done.outcome, done.result) == (Outcome.SUCCEEDED, {"exit_code": 0})
    assert failed is not None
    assert failed.outcome is Outcome.FAILED
    assert failed.error == {
        "type": "CommandFailed",
        "message": "convert exited with code 3",
        "exit_code": 3,
    }
    assert command.verdict_from_exit(ProcessExit(signal=9)) is None


def test_commands_of_the_configuration_are_registered() -> None:
    app = JobForge()
    add_commands(app.command, {"shrink": {"argv": ["convert", "{source}"], "timeout": 30}})
    assert app.definitions["shrink"].settings.timeout_s == 30


@pytest.mark.parametrize(
    "table",
    [{}, {"argv": ["x"], "shell": True}, {"argv": ["x"], "memory": "much"}, {"argv": "x y"}],
)
def test_an_invalid_command_table_is_refused_by_name(table: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        add_commands(JobForge().command, {"shrink": table})
    assert "shrink" in str(refused.value)


@pytest.mark.attack("command arguments")
def test_only_allowed_commands_are_served() -> None:
    app = JobForge()
    allowed = app.command("allowed", argv=["true"])
    app.command("forbidden", argv=["true"])

    @app.job
    def plain() -> None: ...

    assert filter_servable(app.definitions.values(), ["allowed"]) == [allowed, plain]
