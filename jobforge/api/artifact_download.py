"""Artifact download: streams a job's artifact from the store, or redirects to a signed URL.

Jobs write artifacts from tenant data, so the response headers make browsers save the file and never
render it.
"""

import asyncio

from starlette.responses import RedirectResponse, Response, StreamingResponse

from jobforge.api.state import ServerState
from jobforge.artifacts.artifact_reference import ArtifactSource, find_artifact_key
from jobforge.types.jobs import Job

_LINK_S = 300.0
_SAFE_HEADERS = {
    "Content-Type": "application/octet-stream",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, no-store",
}


async def download(
    server: ServerState, job: Job, of: ArtifactSource | None, *, may_redirect: bool
) -> Response:
    """Return the artifact's content or a redirect; raise ArtifactNotFound."""
    key, store = find_artifact_key(job, of), server.artifacts.store
    if may_redirect and server.config.artifact_links:
        link = await asyncio.to_thread(store.sign_url, key.path, _LINK_S)
        if link is not None:
            return RedirectResponse(link, 307, {"Cache-Control": "private, no-store"})
    size = await asyncio.to_thread(store.size, key.path)
    headers = {
        **_SAFE_HEADERS,
        "Content-Length": str(size),
        "Content-Disposition": f'attachment; filename="{job.id}-{key.file}"',
    }
    return StreamingResponse(store.open(key.path), headers=headers)
