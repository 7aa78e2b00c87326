"""The error tree and its SQLSTATEs."""

import pytest

from jobforge import errors
from jobforge.db.sqlstates import error_from_sqlstate
from jobforge.errors import JobForgeError

SQLSTATES = {
    "JF001": (errors.TenantRequired, "tenant_required"),
    "JF002": (errors.Invalid, "invalid"),
    "JF003": (errors.LeaseLost, "lease_lost"),
    "JF004": (errors.NotFound, "not_found"),
    "JF005": (errors.Conflict, "conflict"),
    "JF006": (errors.Denied, "denied"),
    "JF007": (errors.PayloadTooLarge, "payload_too_large"),
    "JF008": (errors.QueueFull, "tenant_queue_full"),
    "JF009": (errors.UnknownDefinition, "unknown_definition"),
    "JF010": (errors.DefinitionInactive, "definition_inactive"),
    "JF011": (errors.DuplicateKey, "duplicate_key"),
    "JF012": (errors.WrongIsolation, "wrong_isolation"),
    "40001": (errors.Contended, "contended"),
    "40P01": (errors.Contended, "contended"),
    "55P03": (errors.Contended, "contended"),
    "57014": (errors.Contended, "contended"),
    "08006": (errors.Unavailable, "unavailable"),
    "57P01": (errors.Unavailable, "unavailable"),
    "42501": (errors.Denied, "denied"),
    "22012": (JobForgeError, "error"),
}


@pytest.mark.parametrize("state", SQLSTATES)
def test_a_sqlstate_is_mapped_to_its_class_and_code(state: str) -> None:
    error = error_from_sqlstate(state, "what happened", None)
    assert (type(error), error.code) == SQLSTATES[state]
    assert str(error) == "what happened"


def test_no_two_classes_share_a_code() -> None:
    classes: list[type[JobForgeError]] = [JobForgeError, *_below(JobForgeError)]
    codes = [error.code for error in classes]
    assert len(codes) == len(set(codes))


def test_the_docstring_of_the_module_lists_every_class() -> None:
    drawing = errors.__doc__ or ""
    assert [
        error.__name__ for error in _below(JobForgeError) if error.__name__ not in drawing
    ] == []


def test_the_detail_names_the_field() -> None:
    error = error_from_sqlstate("JF002", "too high", '{"field": "priority", "limit": 10}')
    assert error.field == "priority"
    assert error.detail == {"field": "priority", "limit": 10}


def test_the_hint_of_the_engine_is_the_hint_of_the_error() -> None:
    assert (
        error_from_sqlstate("JF012", "no", "{}", "Call it elsewhere.").hint == "Call it elsewhere."
    )
    assert error_from_sqlstate("JF002", "no", "{}").hint is None


@pytest.mark.parametrize("detail", [None, "", "Key (id)=(1) exists.", "{broken", "[1]"])
def test_a_detail_that_is_not_a_json_object_is_omitted(detail: str | None) -> None:
    assert error_from_sqlstate("JF002", "no", detail).detail == {}


def test_an_error_without_a_message_has_its_docstring_as_message() -> None:
    assert (
        str(errors.LeaseLost())
        == "The lease is lost: another worker has the job, or the job is finished"
    )


def _below(root: type[JobForgeError]) -> list[type[JobForgeError]]:
    return [leaf for child in root.__subclasses__() for leaf in (child, *_below(child))]
