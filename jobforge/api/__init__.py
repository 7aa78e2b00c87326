"""The HTTP API: a door to the engine's functions. A handler parses, makes one call, answers."""

from typing import TYPE_CHECKING

from jobforge.config import Config

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["create_app"]


def create_app(config: Config) -> "FastAPI":
    """The application, to be run by any ASGI server; its database is opened when it starts."""
    from jobforge.api.app import build_app  # noqa: PLC0415 - FastAPI comes with jobforge[server]

    return build_app(config)
