"""HTTP API. A route handler parses the request, calls the engine once and returns the response."""

from typing import TYPE_CHECKING

from jobforge.config import Config

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["create_app"]


def create_app(config: Config) -> "FastAPI":
    """Return the ASGI application; its lifespan startup opens the database."""
    from jobforge.api.app import build_app  # noqa: PLC0415 - FastAPI is installed by jobforge[server] only

    return build_app(config)
