"""A tenant's configuration of `connector.http.request`: its URL, headers and secrets.

A secret is either encrypted, or a reference to a secret that the operator stores for the tenant on
the workers. `seal_secrets` prepares secrets to be saved; `open_configuration` decrypts them for a
job.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from jobforge import calls
from jobforge.connectors.connector import ConnectorJob
from jobforge.connectors.egress.headers import check_headers
from jobforge.errors import Invalid, InvalidPayload, Json, NotFound
from jobforge.redact import CURRENT_SCOPE, NO_SECRETS, RedactionScope, connector_scope
from jobforge.sdk.outcome_exceptions import Dead

if TYPE_CHECKING:
    from jobforge.connectors.egress import Policy
    from jobforge.security.vault import TenantKey

NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$"

_TABLE = "connector_configs"
_LONGEST_SECRET = 8_192
_MOST_SECRETS = 20
_REFERENCE = re.compile(r"\{\{\s*secret\.([A-Za-z_][A-Za-z0-9_]{0,49})\s*\}\}")


@dataclass(frozen=True, slots=True, repr=False)
class OpenedConfiguration:
    """The configuration of one job; empty if the job has none."""

    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    scope: RedactionScope = NO_SECRETS  # hides the same secrets in responses

    def fill(self, text: str) -> str:
        """Return the text with `{{secret.name}}` replaced."""
        return _REFERENCE.sub(self._secret, text)

    def _secret(self, found: re.Match[str]) -> str:
        if found[1] not in self.secrets:
            raise InvalidPayload(f"Secret '{found[1]}' not found", field="headers")
        return self.secrets[found[1]]


async def open_configuration(job: ConnectorJob[Any], name: str) -> OpenedConfiguration:
    """Return a configuration with all its secrets, which are hidden in this job's output only."""
    from jobforge.security.vault import SealContext  # noqa: PLC0415 - imports cryptography only when needed

    try:
        config = await job.call(calls.open_connector_config(name))
    except NotFound:
        raise Dead(f"Connector configuration '{name}' not found") from None
    if "$unreadable" in config.settings or "$unreadable" in config.secrets:
        raise Dead(
            f"Connector configuration '{name}' is too long as JSON text; set its settings and"
            " secrets"
        )
    key: TenantKey | None = None  # loaded for the first encrypted secret
    opened: dict[str, str] = {}
    for secret, source in config.secrets.items():
        if "from" in source:
            opened[secret] = job.services.secrets.lookup_for_tenant(source["from"], job.tenant_id)
            continue
        if key is None:
            key = await job.call(job.vault.build_tenant_key_call(job.tenant_id))
        context = SealContext(_TABLE, config.id, f"secrets.{secret}")
        opened[secret] = key.open(context, base64.b64decode(source["sealed"])).decode()
    scope = CURRENT_SCOPE.get() or connector_scope(job.claimed.payload_json)
    for value in opened.values():
        scope.add(value)
    return OpenedConfiguration(
        config.settings.get("url"), config.settings.get("headers") or {}, opened, scope
    )


def check_settings(settings: Mapping[str, Json], policy: "Policy") -> None:
    """Raise Invalid or AddressNotAllowed if these settings permit no request."""
    from jobforge.connectors.egress import read_url  # noqa: PLC0415 - imports the HTTP client only when needed

    for name in settings.keys() - {"url", "headers"}:
        raise Invalid(f"Unknown setting '{name}'", field=f"settings.{name}")
    if not isinstance(settings.get("url"), str):
        raise Invalid("settings.url is required", field="settings.url")
    read_url(settings["url"], policy, field="settings.url")
    headers = settings.get("headers", {})
    if not isinstance(headers, Mapping) or not all(isinstance(v, str) for v in headers.values()):
        raise Invalid("settings.headers must be an object of strings", field="settings.headers")
    check_headers(tuple(headers.items()), field="settings.headers")


def needs_seal(config: Mapping[str, Json]) -> bool:
    """Return whether a secret is given as a value, not as a reference."""
    secrets = config.get("secrets", {}).values()
    return any(isinstance(secret, Mapping) and "value" in secret for secret in secrets)


def prepare_config(
    config: Mapping[str, Json], config_id: UUID, key: "TenantKey | None", policy: "Policy"
) -> dict[str, Json]:
    """Return the configuration to store: validated, with its secrets sealed."""
    if "settings" in config:
        check_settings(config["settings"], policy)
    return {**config, "secrets": seal_secrets(config.get("secrets", {}), config_id, key)}


def seal_secrets(
    secrets: Mapping[str, Json], config_id: UUID, key: "TenantKey | None"
) -> dict[str, Json]:
    """Encrypt `{"value": …}` for its field; return references, and None to remove one, as is."""
    if len(secrets) > _MOST_SECRETS:
        raise Invalid(f"secrets must have at most {_MOST_SECRETS} members", field="secrets")
    return {name: _seal_secret(name, secret, config_id, key) for name, secret in secrets.items()}


def _seal_secret(name: str, secret: Json, config_id: UUID, key: "TenantKey | None") -> Json:
    from jobforge.security.vault import SealContext  # noqa: PLC0415 - imports cryptography only when needed

    if secret is None or (isinstance(secret, Mapping) and set(secret) == {"from"}):
        return secret
    value = secret.get("value") if isinstance(secret, Mapping) and len(secret) == 1 else None
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_SECRET or key is None:
        raise Invalid(
            f'Secret \'{name}\' must be {{"value": "…"}} or {{"from": "env:NAME"}}',
            field=f"secrets.{name}",
        )
    sealed = key.seal(SealContext(_TABLE, config_id, f"secrets.{name}"), value.encode())
    return {"sealed": base64.b64encode(sealed).decode()}
