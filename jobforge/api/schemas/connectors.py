"""Schemas of connector configurations."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jobforge.api.schemas.base_types import Body, NulFreeText

ConfigName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$", examples=["billing"])
]
SecretName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,49}$")]
_HEADERS = "`{{secret.name}}` is replaced by that secret."


class SecretValue(Body):
    """A secret value; encrypted before it is stored and never returned."""

    value: Annotated[NulFreeText, Field(min_length=1, max_length=8192)]


class SecretReference(Body):
    """A secret that the operator provides to the workers for this tenant."""

    model_config = ConfigDict(populate_by_name=True)

    source: Annotated[
        str,
        Field(
            alias="from",
            pattern=r"^(env|file):[A-Za-z0-9_.-]{1,100}$",
            examples=["env:BILLING_TOKEN"],
        ),
    ]


Secret = SecretValue | SecretReference


class ConnectorSettings(Body):
    """URL and headers of requests, which may go only to this URL's origin."""

    url: Annotated[NulFreeText, Field(max_length=2048, examples=["https://api.example.com/v1/"])]
    headers: Annotated[dict[str, NulFreeText], Field(max_length=50)] = Field(
        default_factory=dict, description=_HEADERS
    )


class NewConnector(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "billing",
                    "settings": {
                        "url": "https://api.example.com/v1/",
                        "headers": {"Authorization": "Bearer {{secret.token}}"},
                    },
                    "secrets": {"token": {"value": "…"}},
                }
            ]
        }
    )

    name: ConfigName
    connector: Literal["http.request"] = "http.request"
    settings: ConnectorSettings
    secrets: Annotated[dict[SecretName, Secret], Field(max_length=20)] = Field(default_factory=dict)


class ConnectorChanges(Body):
    """Omitted fields and secrets are unchanged; null removes a secret."""

    name: ConfigName | None = None
    settings: ConnectorSettings | None = None
    secrets: Annotated[dict[SecretName, Secret | None], Field(max_length=20)] | None = None


class CreatedConnectorView(BaseModel):
    id: UUID
