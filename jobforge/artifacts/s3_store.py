"""Stores artifacts in an S3 bucket, or in any service with an S3-compatible API.

    s3://bucket/prefix?endpoint=https://minio.example.com&region=eu-central-1

Credentials come from the settings, or else from AWS_* variables, the role of a profile or the
machine's metadata service.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID, uuid4

from jobforge.artifacts.keys import check_path, check_prefix, parse_folder
from jobforge.errors import ArtifactNotFound, ArtifactUnavailable, ConfigError

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
    from obstore.store import S3Store
except ImportError as error:
    raise ImportError('S3 requires obstore; install it with: pip install "jobforge[s3]"') from error

_PIECE = 1024 * 1024
_IDENTITY = "store-id"
_LISTED_AT_ONCE = 1_000
_TIMEOUT_S = 30


class BucketStore:
    """A Store in an S3 bucket."""

    def __init__(self, url: str, credentials: Mapping[str, str]) -> None:
        self._store = _open_store(url, credentials)

    def identity(self) -> UUID:
        try:
            return self._read_identity()
        except ArtifactNotFound:
            pass
        # Several processes may race here: mode="create" lets only one of them succeed.
        with _translate_errors(_IDENTITY), suppress(AlreadyExistsError):
            obstore.put(self._store, _IDENTITY, str(uuid4()).encode(), mode="create")
        return self._read_identity()

    def _read_identity(self) -> UUID:
        with _translate_errors(_IDENTITY):
            text = bytes(obstore.get(self._store, _IDENTITY).bytes()).decode(errors="replace")
        try:
            return UUID(text.strip())
        except ValueError:
            raise ArtifactUnavailable(f"The object {_IDENTITY} does not contain an ID") from None

    def put(self, path: str, data: bytes | Iterable[bytes]) -> None:
        with _translate_errors(path):
            # A large object is a multipart upload, which becomes visible when it completes.
            obstore.put(self._store, check_path(path), data)

    def open(self, path: str) -> Iterator[bytes]:
        with _translate_errors(path):
            for piece in obstore.get(self._store, check_path(path)).stream(min_chunk_size=_PIECE):
                yield bytes(piece)

    def size(self, path: str) -> int:
        with _translate_errors(path):
            return int(obstore.head(self._store, check_path(path))["size"])

    def delete_prefix(self, prefix: str) -> bool:
        found = False
        for paths in self._iter_path_batches(check_prefix(prefix)):
            found = True
            self._delete(paths)
        return found

    def list_folders(self) -> Iterator[str]:
        last = None
        for paths in self._iter_path_batches(None):
            for path in paths:
                folder = parse_folder(path)
                if folder is not None and folder != last:
                    yield folder
                    last = folder

    def sign_url(self, path: str, seconds: float) -> str | None:
        with _translate_errors(path):
            return obstore.sign(self._store, "GET", check_path(path), timedelta(seconds=seconds))

    def _iter_path_batches(self, prefix: str | None) -> Iterator[list[str]]:
        with _translate_errors(prefix or "all"):
            for batch in obstore.list(self._store, prefix, chunk_size=_LISTED_AT_ONCE):
                yield [found["path"] for found in batch]

    def _delete(self, paths: list[str]) -> None:
        try:
            with _translate_errors(paths[0]):
                obstore.delete(self._store, paths)
        except ArtifactNotFound:
            return


def _open_store(url: str, credentials: Mapping[str, str]) -> S3Store:
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query))
    endpoint, region = given.pop("endpoint", None), given.pop("region", None)
    if not parts.netloc or given or parts.username or parts.password:
        raise ConfigError(
            "artifacts must have the form s3://bucket/prefix?endpoint=…&region=…", field="artifacts"
        )
    settings: dict[str, Any] = dict(credentials)
    if endpoint is not None:
        settings["endpoint"] = endpoint
    if region is not None:
        settings["region"] = region
    try:
        return S3Store(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            client_options={
                "allow_http": (endpoint or "").startswith("http://"),
                "timeout": f"{_TIMEOUT_S}s",
            },
            retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=_TIMEOUT_S)},
            **settings,
        )
    except BaseError as error:
        raise ConfigError(f"artifacts: {_first_line(error)}", field="artifacts") from error


@contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (NotFoundError, FileNotFoundError) as error:
        raise ArtifactNotFound(f"Artifact '{path}' not found") from error
    except (BaseError, OSError) as error:
        raise ArtifactUnavailable(
            f"The artifact store is unavailable: {_first_line(error)}"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
