"""A tenant's configuration of `connector.http.request`: where it leads to, and with which secrets.

A secret is sealed, or a reference to one that the operator put beside the workers for that tenant.
Saving one is `sealed_config`'s, opening one for a job `open_configuration`'s.
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
    """What a job uses of a configuration; of none without one."""

    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    scope: RedactionScope = NO_SECRETS  # the same secrets, as they are hidden in what comes back

    def fill(self, text: str) -> str:
        """The text with `{{secret.name}}` replaced."""
        return _REFERENCE.sub(self._secret, text)

    def _secret(self, found: re.Match[str]) -> str:
        if found[1] not in self.secrets:
            raise InvalidPayload(f"there is no secret {found[1]}", field="headers")
        return self.secrets[found[1]]


async def open_configuration(job: ConnectorJob[Any], name: str) -> OpenedConfiguration:
    """Return it with all its secrets, which are hidden in the output of this job alone."""
    from jobforge.security.vault import SealContext  # noqa: PLC0415 - it loads cryptography

    try:
        kept = await job.call(calls.open_connector_config(name))
    except NotFound:
        raise Dead(f"there is no configuration {name}") from None
    if "$unreadable" in kept.settings or "$unreadable" in kept.secrets:
        raise Dead(f"configuration {name} is too long as JSON text: set its settings and secrets")
    key: TenantKey | None = None  # asked for by the first that is sealed
    found: dict[str, str] = {}
    for secret, where in kept.secrets.items():
        if "from" in where:
            found[secret] = job.services.secrets.lookup_for_tenant(where["from"], job.tenant_id)
            continue
        if key is None:
            key = await job.call(job.vault.build_tenant_key_call(job.tenant_id))
        place = SealContext(_TABLE, kept.id, f"secrets.{secret}")
        found[secret] = key.open(place, base64.b64decode(where["sealed"])).decode()
    scope = CURRENT_SCOPE.get() or connector_scope(job.claimed.payload_json)
    for value in found.values():
        scope.add(value)
    return OpenedConfiguration(
        kept.settings.get("url"), kept.settings.get("headers") or {}, found, scope
    )


def check_settings(settings: Mapping[str, Json], policy: "Policy") -> None:
    """Invalid or AddressNotAllowed when no request could be made by them."""
    from jobforge.connectors.egress import read_url  # noqa: PLC0415 - it loads the HTTP client

    for name in settings.keys() - {"url", "headers"}:
        raise Invalid(f"there is no setting {name}", field=f"settings.{name}")
    if not isinstance(settings.get("url"), str):
        raise Invalid("settings.url is required", field="settings.url")
    read_url(settings["url"], policy, field="settings.url")
    headers = settings.get("headers", {})
    if not isinstance(headers, Mapping) or not all(isinstance(v, str) for v in headers.values()):
        raise Invalid("settings.headers must be texts by name", field="settings.headers")
    check_headers(tuple(headers.items()), field="settings.headers")


def needs_seal(secrets: Mapping[str, Json]) -> bool:
    """Whether a value is among them, and not references alone."""
    return any(isinstance(secret, Mapping) and "value" in secret for secret in secrets.values())


def seal_secrets(
    secrets: Mapping[str, Json], config_id: UUID, key: "TenantKey | None"
) -> dict[str, Json]:
    """`{"value": …}` sealed for its place; references, and None for one to be taken back, as is."""
    if len(secrets) > _MOST_SECRETS:
        raise Invalid(f"a configuration has at most {_MOST_SECRETS} secrets", field="secrets")
    return {name: _seal_secret(name, secret, config_id, key) for name, secret in secrets.items()}


def _seal_secret(name: str, secret: Json, config_id: UUID, key: "TenantKey | None") -> Json:
    from jobforge.security.vault import SealContext  # noqa: PLC0415 - it loads cryptography

    if secret is None or (isinstance(secret, Mapping) and set(secret) == {"from"}):
        return secret
    value = secret.get("value") if isinstance(secret, Mapping) and len(secret) == 1 else None
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_SECRET or key is None:
        raise Invalid(
            f'a secret is {{"value": text}} or {{"from": "env:NAME"}}, and {name} is neither',
            field=f"secrets.{name}",
        )
    sealed = key.seal(SealContext(_TABLE, config_id, f"secrets.{name}"), value.encode())
    return {"sealed": base64.b64encode(sealed).decode()}
