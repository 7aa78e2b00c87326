"""Dashboard: serves the files built into the package.

A path without a file gets the page itself, whose script routes by the address. A JSON block in the
page names the mount path: with no inline script, the Content-Security-Policy can forbid all of
them.
"""

import gzip
import html
import json
import mimetypes
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from importlib.resources.abc import Traversable

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from jobforge import __version__
from jobforge.api.auth.permissions import PREFIX

MOUNT = "/ui"
_PAGE = "index.html"
_ASSETS = "assets/"  # file names contain a content hash
_CACHE_FOREVER = "public, max-age=31536000, immutable"
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "vary": "accept-encoding",
}
_COMPRESSIBLE = (".html", ".js", ".css", ".svg", ".json")
_NOT_BUILT_PAGE = """\
<!doctype html><html lang="en"><meta charset="utf-8"><title>JobForge</title>
<h1>The dashboard is not in this build</h1>
<p>It was built with JOBFORGE_SKIP_UI, or from a checkout without <code>make ui</code>.
The HTTP API is at <code>{api}</code>.</p></html>
"""


@dataclass(frozen=True)
class _File:
    name: str
    body: bytes

    @property
    def media_type(self) -> str:
        return mimetypes.guess_type(self.name)[0] or "application/octet-stream"

    @cached_property
    def gzipped_body(self) -> bytes | None:
        """Compress on first use: most servers in tests never serve the file."""
        if not self.name.endswith(_COMPRESSIBLE):
            return None
        return gzip.compress(self.body, mtime=0)


class Dashboard:
    """ASGI application that reads the dashboard's files once, at creation."""

    def __init__(self, folder: Traversable | None = None) -> None:
        self._files = _read(folder or resources.files("jobforge") / "ui")
        self._pages: dict[str, _File] = {}  # page by mount path

    @property
    def is_built(self) -> bool:
        return _PAGE in self._files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in {"GET", "HEAD"}:
            raise HTTPException(405, headers={"allow": "GET, HEAD"})
        root = scope.get("root_path", "")
        scope["jobforge.route"] = MOUNT
        path = scope["path"].removeprefix(root).lstrip("/")
        response = self._respond(path, root, Headers(scope=scope))
        await response(scope, receive, send)

    def _respond(self, path: str, root: str, headers: Headers) -> Response:
        file = self._files.get(path) if path != _PAGE else None
        if file is None and path.startswith(_ASSETS):
            raise HTTPException(404)
        cache_control = _CACHE_FOREVER if path.startswith(_ASSETS) else "no-cache"
        file = file or self._page(root)
        gzipped = file.gzipped_body if "gzip" in headers.get("accept-encoding", "") else None
        response = Response(gzipped or file.body, media_type=file.media_type, headers=_HEADERS)
        response.headers["cache-control"] = cache_control
        if gzipped:
            response.headers["content-encoding"] = "gzip"
        return response

    def _page(self, root: str) -> _File:
        """Return the page for a mount path. The cache is small: clients cannot choose the path."""
        if root not in self._pages:
            self._pages[root] = _File(_PAGE, self._render(root).encode())
        return self._pages[root]

    def _render(self, root: str) -> str:
        api = root.removesuffix(MOUNT) + PREFIX
        if _PAGE not in self._files:
            return _NOT_BUILT_PAGE.format(api=html.escape(api))
        config = {"base": root, "api": api, "version": __version__}
        block = json.dumps(config).replace("<", "\\u003c")
        text = self._files[_PAGE].body.decode()
        return text.replace('"./', f'"{html.escape(root)}/').replace("{}", block, 1)


def _read(folder: Traversable, prefix: str = "") -> dict[str, _File]:
    files: dict[str, _File] = {}
    if not folder.is_dir():
        return files
    for entry in folder.iterdir():
        name = prefix + entry.name
        if entry.is_dir():
            files |= _read(entry, f"{name}/")
        elif not entry.name.startswith("."):
            files[name] = _File(name, entry.read_bytes())
    return files
