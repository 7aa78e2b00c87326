"""Plain types are checked as pydantic would, without building a model."""

import subprocess
import sys
from typing import Any, NotRequired, Optional

import pytest
from pydantic import ConfigDict, TypeAdapter
from pydantic_core import SchemaSerializer, SchemaValidator
from typing_extensions import TypedDict

from jobforge.payloads.core_schema import ObjectShape, plain_schema
from jobforge.payloads.signature import Shape

PLAIN = [
    *(Any, bool, float, int, str, None, type(None)),
    *(list[int], list[Any], list[list[str]], dict[str, int], dict[str, Any], dict[int, str]),
    *(int | None, list[int | None], dict[str, list[bool]] | None),
    Optional[str],  # noqa: UP045 - the spelling of older code
]
OTHERS = [bytes, list, dict, set[int], tuple[int, ...], int | str, list[bytes], None | int]


@pytest.mark.parametrize("kind", PLAIN, ids=str)
def test_a_plain_type_has_the_schema_of_pydantic(kind: Any) -> None:
    schema = plain_schema(kind)
    assert schema == TypeAdapter(kind).core_schema


@pytest.mark.parametrize("kind", OTHERS, ids=str)
def test_other_types_are_left_to_pydantic(kind: Any) -> None:
    assert plain_schema(kind) is None
    assert plain_schema(ObjectShape("taken", {"one": int, "other": kind}, {})) is None


def test_an_object_has_the_schema_of_a_typed_dict() -> None:
    class Taken(TypedDict):
        __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc] # as pydantic has it
        n: int
        names: NotRequired[list[str]]

    schema = plain_schema(ObjectShape("Taken", {"n": int, "names": list[str]}, {"names": []}))
    assert schema is not None
    theirs = TypeAdapter(Taken)
    assert repr(SchemaValidator(schema)) == repr(theirs.validator)
    taken: Any = {"n": 1, "names": ["one"]}
    assert SchemaSerializer(schema).to_python(taken) == theirs.dump_python(taken) == taken


def test_the_schema_of_an_object_has_its_defaults() -> None:
    schema = Shape(ObjectShape("taken", {"n": int, "m": int}, {"m": 7})).schema()
    assert schema["required"] == ["n"]
    assert schema["properties"]["m"] == {"default": 7, "title": "M", "type": "integer"}


def test_an_app_of_plain_jobs_needs_few_modules_to_fork_them() -> None:
    code = """
import sys
import jobforge.worker.isolation.zygote
from jobforge import Context, JobForge
jf = JobForge()
@jf.job
def sent(ctx: Context, to: str, copies: int = 1, notes: list[str] | None = None) -> bool:
    return True
unneeded = {"asyncio", "hashlib", "pydantic", "jobforge.config", "jobforge.control"}
print(*sorted(unneeded & sys.modules.keys()))
"""
    run = [sys.executable, "-c", code]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "\n"
