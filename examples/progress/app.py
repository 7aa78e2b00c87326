"""A web page that shows the progress and the log of a job while it runs. See README.md."""

import json
import time
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Annotated
from uuid import UUID

from fastapi import FastAPI, Header, HTTPException
from fastapi.responses import FileResponse, StreamingResponse

from jobforge import Context, Handle, JobForge
from jobforge.errors import NotFound

jf = JobForge()
web = FastAPI(lifespan=jf.lifespan)
PAGE = Path(__file__).with_name("index.html")


@jf.job
def export_orders(ctx: Context, months: int, seconds_per_month: float = 1) -> str:
    for month in range(1, months + 1):
        time.sleep(seconds_per_month)  # export the orders of this month here
        ctx.log.info("exported", month=month)
        ctx.progress(month, months)
    return f"{months} months"


@web.get("/")
async def show_page() -> FileResponse:
    return FileResponse(PAGE)


@web.post("/exports", status_code=202)
async def start_export(months: int = 12, seconds_per_month: float = 1) -> dict[str, UUID]:
    # In your application: pass using(tenant=…) with the tenant of the signed-in user.
    return {"id": (await export_orders.aenqueue(months, seconds_per_month)).id}


@web.get("/exports/{job_id}/events")
async def stream_export(
    job_id: UUID, last_event_id: Annotated[datetime | None, Header()] = None
) -> StreamingResponse:
    """Stream server-sent events. A browser that reconnects sends the ID of the last one."""
    export = await jf.ajob_of(job_id)
    try:
        await export.ajob()
    except NotFound as error:
        raise HTTPException(404, "Export not found") from error
    return StreamingResponse(
        encode_events(export, last_event_id),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def encode_events(job: Handle[str], after: datetime | None) -> AsyncIterator[str]:
    async for event in job.afollow(after=after):
        data = json.dumps(event.data)
        yield f"id: {event.at.isoformat()}\nevent: {event.kind}\ndata: {data}\n\n"
