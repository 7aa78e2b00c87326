"""Artifact stores for tests: a folder, and a bucket of an S3 server on loopback."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import httpx2
from moto.server import ThreadedMotoServer

from jobforge.artifacts import Artifacts

LIMIT = 32 * 1024**2
CREDENTIALS = {"access_key_id": "test", "secret_access_key": "test"}


@contextmanager
def s3_server() -> Iterator[str]:
    """Run an S3 server until the end of the block; return its address."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()


def new_bucket(address: str) -> str:
    """Create an empty bucket; return its URL."""
    name = f"bucket-{uuid4().hex[:12]}"
    httpx2.put(f"{address}/{name}", trust_env=False).raise_for_status()
    return f"s3://{name}/jobs?endpoint={address}&region=us-east-1"


def artifacts_in_folder(path: Path) -> Artifacts:
    return Artifacts(str(path), limit=LIMIT, credentials={})


def artifacts_in_bucket(url: str) -> Artifacts:
    return Artifacts(url, limit=LIMIT, credentials=CREDENTIALS)
