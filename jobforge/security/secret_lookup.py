"""Looks up secrets by name: in the secrets folder, then in environment variables.

A secret is a file with that name, as Kubernetes and Docker mount them, or the variable
JOBFORGE_SECRET_<NAME>. A secret that a job looks up is redacted in this process's logs from then
on; the caller redacts it in the job's output.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

from jobforge.errors import Invalid, NotFound
from jobforge.process.environment import environment
from jobforge.redact import register_job_secret

MAX_SECRET_BYTES = 65_536

# Settings of this process whose names have the prefix of secrets.
_RESERVED = frozenset(
    f"JOBFORGE_SECRET_{name}" for name in ("KEY", "KEY_FILE", "KEY_PREVIOUS", "KEY_PREVIOUS_FILE")
)

# The variables of `lookup_for_tenant`, which only connectors of that tenant read.
_TENANT_VARIABLE = re.compile(r"JOBFORGE_SECRET_[0-9A-F]{32}_")


class Secrets:
    """The secrets that this process may give to its jobs."""

    def __init__(
        self, folder: Path | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._environ = environment() if environ is None else environ

    def lookup(self, name: str) -> str:
        """Return the secret with this name, which must not be a tenant's secret.

        The hint of NotFound lists where the secret can be set.
        """
        _check(name)
        variable = _variable(name)
        value = self._from_folder(name)
        if value is None and variable not in _RESERVED and not _TENANT_VARIABLE.match(variable):
            value = self._environ.get(variable)
        if value is None:
            raise NotFound(f"Secret '{name}' not found", hint=self._format_lookup_hint(name))
        register_job_secret(value)
        return value

    def lookup_for_tenant(self, reference: str, tenant_id: UUID) -> str:
        """Return the secret `env:NAME` or `file:NAME` that the operator provided for this tenant.

        Tenants choose these names, so a name can only reach the tenant's own secrets: the file NAME
        in the folder `<tenant id>`, and the variable JOBFORGE_SECRET_<tenant id>_<NAME>.
        """
        kind, _, name = reference.partition(":")
        _check(name)
        if kind == "file" and self._folder is not None:
            value = Secrets(self._folder / str(tenant_id), {})._from_folder(name)  # noqa: SLF001 - a method of this class
        else:
            value = self._environ.get(_variable(f"{tenant_id.hex}_{name}"))
        if value is None:
            raise NotFound(f"Secret '{reference}' not found")
        return value

    def _from_folder(self, name: str) -> str | None:
        if self._folder is None:
            return None
        path = self._folder / name
        if not _lies_within(path, self._folder):
            return None
        try:
            with path.open("rb") as file:
                raw = file.read(MAX_SECRET_BYTES + 1)
        except OSError:
            return None
        if len(raw) > MAX_SECRET_BYTES:
            raise Invalid(
                f"Secret '{name}' is larger than {MAX_SECRET_BYTES:,} bytes", field="name"
            )
        try:
            return raw.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            # The cause would show the bytes.
            raise Invalid(f"Secret '{name}' is not UTF-8 text", field="name") from None

    def _format_lookup_hint(self, name: str) -> str:
        file = f", or create the file {self._folder / name}" if self._folder is not None else ""
        return f"Set the variable {_variable(name)}{file}"


def _check(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", name) or name.startswith(".."):
        raise Invalid("A secret name can contain only letters, digits, _ . and -", field="name")


def _variable(name: str) -> str:
    return f"JOBFORGE_SECRET_{re.sub(r'[.-]', '_', name).upper()}"


def _lies_within(path: Path, folder: Path) -> bool:
    """Whether the path, with links resolved, is inside the folder.

    Kubernetes mounts files as links into ..data, which stays inside the folder.
    """
    try:
        return path.resolve(strict=True).is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return False
