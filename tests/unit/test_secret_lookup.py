"""Where secrets are looked up, and which are never returned."""

from pathlib import Path
from uuid import UUID

import pytest

from jobforge import redact
from jobforge.errors import Invalid, NotFound
from jobforge.security.secret_lookup import MAX_SECRET_BYTES, Secrets


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "secrets"
    made.mkdir()
    return made


def test_a_secret_is_a_file_of_the_folder(folder: Path) -> None:
    (folder / "smtp.password").write_text("from the file\n")
    assert Secrets(folder, {}).lookup("smtp.password") == "from the file"


@pytest.mark.parametrize(
    ("content", "value"),
    [(b"a b\n", "a b"), (b"a b\r\n", "a b"), (b"a\n\n", "a\n"), (b" a ", " a "), (b"", "")],
)
def test_one_final_line_break_is_not_part_of_the_secret(
    folder: Path, content: bytes, value: str
) -> None:
    (folder / "key").write_bytes(content)
    assert Secrets(folder, {}).lookup("key") == value


@pytest.mark.parametrize("name", ["smtp_password", "smtp-password", "SMTP.password"])
def test_a_secret_may_be_a_variable(folder: Path, name: str) -> None:
    secrets = Secrets(folder, {"JOBFORGE_SECRET_SMTP_PASSWORD": "from the variable"})
    assert secrets.lookup(name) == "from the variable"


def test_the_folder_wins_over_the_variable(folder: Path) -> None:
    (folder / "key").write_text("from the file")
    assert Secrets(folder, {"JOBFORGE_SECRET_KEY": "variable"}).lookup("key") == "from the file"


def test_the_variables_are_those_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBFORGE_SECRET_SMTP", "from the process")
    assert Secrets().lookup("smtp") == "from the process"


@pytest.mark.parametrize("name", ["key", "KEY", "key.file", "key_previous", "key-previous-file"])
def test_the_key_of_the_installation_is_not_a_secret_for_jobs(name: str) -> None:
    variables = {
        f"JOBFORGE_SECRET_{each}": "the key of all tenants"
        for each in ("KEY", "KEY_FILE", "KEY_PREVIOUS", "KEY_PREVIOUS_FILE")
    }
    with pytest.raises(NotFound):
        Secrets(None, variables).lookup(name)


def test_a_tenant_can_read_only_its_own_secrets(folder: Path) -> None:
    own, other = UUID(int=1), UUID(int=2)
    for tenant in (own, other):
        (folder / str(tenant)).mkdir()
        (folder / str(tenant) / "token").write_text(f"file of {tenant.int}")
    (folder / "token").write_text("of the app")
    (folder / str(own) / "link").symlink_to(folder / str(other) / "token")
    variables = {f"JOBFORGE_SECRET_{own.hex.upper()}_TOKEN": "variable of 1"}
    variables |= {"JOBFORGE_SECRET_TOKEN": "of the app", "JOBFORGE_DATABASE_URL": "of us"}
    secrets = Secrets(folder, variables)
    assert secrets.lookup_for_tenant("file:token", own) == "file of 1"
    assert secrets.lookup_for_tenant("env:TOKEN", own) == "variable of 1"
    for reference in ("env:DATABASE_URL", "file:link", "file:other", "env:OTHER"):
        with pytest.raises(NotFound):
            secrets.lookup_for_tenant(reference, own)
    with pytest.raises(NotFound):
        secrets.lookup_for_tenant("env:TOKEN", other)
    for reference in ("file:../token", f"file:../{other}/token", "file:", "token"):
        with pytest.raises(Invalid):
            secrets.lookup_for_tenant(reference, own)


def test_a_missing_secret_is_reported_with_the_places_searched(folder: Path) -> None:
    (folder / "other").write_text("hunter2")
    with pytest.raises(NotFound) as caught:
        Secrets(folder, {"JOBFORGE_SECRET_OTHER": "hunter2"}).lookup("key")
    assert str(folder / "key") in (caught.value.hint or "")
    assert "JOBFORGE_SECRET_KEY" in (caught.value.hint or "")
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    "name", ["", "..", "../key", "a/b", "/etc/passwd", "a\0b", "a\nb", "ä", "x" * 101, "..data"]
)
def test_a_name_that_could_be_another_path_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(Invalid):
        Secrets(folder, {}).lookup(name)


def test_a_link_out_of_the_folder_is_not_followed(folder: Path) -> None:
    outside = folder.parent / "outside"
    outside.write_text("hunter2")
    (folder / "key").symlink_to(outside)
    with pytest.raises(NotFound):
        Secrets(folder, {}).lookup("key")


def test_a_folder_as_kubernetes_mounts_it_is_read(folder: Path) -> None:
    (folder / "..2026_11_15").mkdir()
    (folder / "..2026_11_15" / "key").write_text("mounted")
    (folder / "..data").symlink_to("..2026_11_15")
    (folder / "key").symlink_to("..data/key")
    assert Secrets(folder, {}).lookup("key") == "mounted"


def test_a_folder_that_is_itself_a_link_is_read(folder: Path) -> None:
    (folder / "key").write_text("linked")
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert Secrets(link, {}).lookup("key") == "linked"


def test_a_folder_is_not_a_secret(folder: Path) -> None:
    (folder / "key").mkdir()
    with pytest.raises(NotFound):
        Secrets(folder, {}).lookup("key")


@pytest.mark.parametrize("content", [b"x" * (MAX_SECRET_BYTES + 1), b"hunter2\xff"])
def test_an_invalid_secret_is_refused_without_being_shown(folder: Path, content: bytes) -> None:
    (folder / "key").write_bytes(content)
    with pytest.raises(Invalid) as caught:
        Secrets(folder, {}).lookup("key")
    assert "hunter2" not in repr(caught.value)
    assert caught.value.__cause__ is None


def test_a_secret_is_hidden_in_logs_once_it_was_looked_up(folder: Path) -> None:
    (folder / "key").write_text("first-of-its-kind")
    assert redact.log_scope().hide("first-of-its-kind") == "first-of-its-kind"
    Secrets(folder, {}).lookup("key")
    assert redact.log_scope().hide("first-of-its-kind") == redact.MARKER
    # Another job has separate output; redacting it too would let its tenant test guesses.
    assert redact.redact_text("first-of-its-kind") == "first-of-its-kind"
