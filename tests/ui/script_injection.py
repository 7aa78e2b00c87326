"""A tenant that writes a script into every field that it controls.

If a browser treats the string as code, each form sets a variable of the page or requests an
external address.
"""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from api.api_server import ApiServer

from jobforge import calls, db
from jobforge.errors import JobForgeError
from jobforge.types.jobs import Note, Outcome, OutcomeReport, Step

ELSEWHERE = "127.0.0.1:9"
RUN = "window.hostileRan=1"
FORMS = (
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"<ScRiPt src=//{ELSEWHERE}/x.js></sCrIpT>",
    f"<script type=module>{RUN}</script>",
    f"<img src=x onerror={RUN}>",
    f'"><img src=x onerror={RUN}>',
    f"'><body onload={RUN}>",
    f'" onmouseover={RUN} onfocus={RUN} autofocus x="',
    f"' style=animation-name:x onanimationstart={RUN} '",
    f"<input autofocus onfocus={RUN}>",
    f"<details open ontoggle={RUN}>",
    f"<video><source onerror={RUN}></video>",
    f"<svg onload={RUN}>",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><animate onbegin={RUN} attributeName=x></svg>",
    f"<math><mtext></form><form><mglyph><style></math><img src onerror={RUN}>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"<iframe src=javascript:parent.{RUN}></iframe>",
    f"javascript:{RUN}",
    f"JaVaScRiPt&colon;{RUN}",
    f"data:text/html,<script>opener.{RUN}</script>",
    f"[click](javascript:{RUN})",
    f"![image](http://{ELSEWHERE}/x.png)",
    f"<style>@import '//{ELSEWHERE}/x.css'</style>",
    f"<link rel=stylesheet href=//{ELSEWHERE}/x.css>",
    f"red;background:url(//{ELSEWHERE}/x.png)",
    f"<base href=//{ELSEWHERE}/>",
    f"<meta http-equiv=refresh content='0;url=//{ELSEWHERE}/'>",
    f"{{{{constructor.constructor('{RUN}')()}}}}",
    f"${{{RUN}}}",
    f"&lt;script&gt;{RUN}&lt;/script&gt;",
    f"\\u003cscript\\u003e{RUN}\\u003c/script\\u003e",
    f"\uff1cscript\uff1e{RUN}\uff1c/script\uff1e",
    f"\u202e<script>{RUN}</script>\u200b",
)
# Keys that some libraries treat as an element, or as properties of every object.
OBJECTS: dict[str, Any] = {
    "$$typeof": "Symbol(react.element)",
    "type": "script",
    "props": {"dangerouslySetInnerHTML": {"__html": FORMS[4]}},
    "__proto__": {"dangerouslySetInnerHTML": {"__html": FORMS[4]}},
    "constructor": {"prototype": {"innerHTML": FORMS[4]}},
    "toString": FORMS[0],
}


@dataclass
class InjectedTenant:
    """The tenant; `ids["job"][n]` is the ID of the job with FORMS[n], if the API accepted that
    form.
    """

    server: ApiServer
    ids: dict[str, dict[int, str]] = field(default_factory=dict)
    injected: int = 0
    refused: int = 0

    def post(self, kind: str, number: int, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Inject over the HTTP API; a form that the API does not accept must be refused without a
        server error.
        """
        return self._send("POST", kind, number, path, body)

    def patch(self, path: str, body: dict[str, Any]) -> None:
        self._send("PATCH", "", 0, path, body)

    def _send(
        self, method: str, kind: str, number: int, path: str, body: dict[str, Any]
    ) -> dict[str, Any]:
        answer = self.server.client("tenant_admin").request(method, path, json=body)
        self.injected += 1
        if not answer.is_success:
            assert answer.status_code in {400, 404, 422}, answer.text
            self.refused += 1
            return {}
        tenant: dict[str, Any] = answer.json() if answer.content else {}
        if kind:
            self.ids.setdefault(kind, {})[number] = str(tenant["id"])
        return tenant

    def run(self, call: Any) -> Any:
        """Inject through SQL, as a worker or an operator does."""
        self.injected += 1
        try:
            return db.run(self.server.conn, call)
        except JobForgeError:
            self.refused += 1
            return None


def inject_scripts(house: ApiServer) -> InjectedTenant:
    tenant = InjectedTenant(house)
    for number, form in enumerate(FORMS):
        _plant_shared(tenant, number, form)
        _plant_automation(tenant, number, form)
        _plant_job(tenant, number, form, f"kind-{number}")
        _plant_job(tenant, number, form, f"kind-{number}", is_dead=True)
    return tenant


def _plant_shared(tenant: InjectedTenant, number: int, form: str) -> None:
    """Inject into names that operators and workers choose."""
    schema = {
        "type": "object",
        "title": form,
        "properties": {
            form: {"type": "string", "title": form, "description": form, "default": form},
            "choice": {"enum": [form, "plain"], "examples": [form]},
        },
    }
    settings = {"description": form, "parameters": schema, "max_attempts": 1}
    tenant.run(calls.put_definition(f"kind-{number}", 1, settings))
    tenant_id = uuid4()
    tenant.run(calls.put_tenant(tenant_id, {"slug": f"tenant-of-{number}", "name": form}))
    tenant.run(
        calls.register_worker(uuid4(), ["default"], slots=1, host=form, build=form, isolation=form)
    )
    tenant.post("key", number, "/keys", {"name": form, "role": "viewer"})


def _plant_automation(tenant: InjectedTenant, number: int, form: str) -> None:
    job: dict[str, Any] = {"definition": "plain", "payload": {form: form}, "tags": [form]}
    tenant.post("batch", number, "/batches", {"name": form, "jobs": [job]})
    nodes = [
        {"name": "first", **job},
        {"name": "second", "definition": "plain", "after": ["first"]},
    ]
    tenant.post(
        "workflow", number, "/workflows", {"name": form, "input": {form: form}, "nodes": nodes}
    )
    tenant.post("node", number, "/workflows", {"name": "n", "nodes": [{**job, "name": form}]})
    reaction = {"type": "event", "definition": "plain", "event": "of.a", "label": form}
    condition = [{"path": "event.total", "op": "eq", "value": form}]
    templates = {form: form, "quoted": form.replace("{{", "{ {")}
    tenant.post("trigger", number, "/triggers", {**reaction, "filter": condition})
    tenant.post("trigger", number, "/triggers", {**reaction, "payload": templates})
    schedule: dict[str, Any] = {"type": "schedule", "definition": "plain"}
    schedule |= {"cron": "0 3 * * *", "timezone": "UTC"}
    schedule |= {"payload": {form: form.replace("{{", "{ {")}}
    tenant.post("schedule", number, "/triggers", {**schedule, "label": form})
    _plant_firing(tenant, number, form)
    tenant.post("event", number, "/events", {"name": "of.a", "data": {form: form}})
    tenant.post("event_name", number, "/events", {"name": form})
    hook = {"url": f"https://example.com/?q={form}", "definitions": ["plain"], "events": ["dead"]}
    tenant.post("webhook", number, "/webhooks", {**hook, "description": form})
    plain_hook = {**hook, "url": "https://example.com/"}
    tenant.post("webhook", number, "/webhooks", {**plain_hook, "description": form})
    tenant.post("bare", number, "/webhooks", {**hook, "url": form})
    settings = {"url": f"https://example.com/{form}", "headers": {"X-Form": form}}
    tenant.post("connector", number, "/connectors", {"name": f"c{number}", "settings": settings})
    tenant.post("connector", number, "/connectors", {"name": form, "settings": settings})
    tenant.post(
        "connector", number, "/connectors", {"name": f"d{number}", "settings": {"url": form}}
    )


def _plant_firing(tenant: InjectedTenant, number: int, form: str) -> None:
    """Inject into the reason of a firing, which may quote a tenant's input."""
    trigger = tenant.ids.get("schedule", {}).get(number)
    if trigger is not None:
        tenant.server.conn.execute(
            "insert into jobforge.firings (tenant_id, trigger_id, fire_at, at, outcome, reason) "
            "values (%s, %s, now() - interval '1 hour', now(), 'failed', %s)",
            [tenant.server.a.tenant_id, trigger, form],
        )


def _plant_job(
    tenant: InjectedTenant, number: int, form: str, definition: str, *, is_dead: bool = False
) -> None:
    """Inject into a job, and into everything that its worker can report about it."""
    kind = "dead" if is_dead else "job"
    request = {
        "definition": definition,
        "queue": f"q{number}",
        "payload": {form: form, "list": [form, {form: [form]}], **({} if is_dead else OBJECTS)},
        "tags": [form],
        "key": f"{form} {kind}",
        "correlation_id": form,
    }
    tenant.post(kind, number, "/jobs", request)
    if number not in tenant.ids.get(kind, {}):  # a form that is not a valid key
        del request["key"], request["correlation_id"], request["tags"]
        tenant.post(kind, number, "/jobs", request)
    worker = uuid4()
    db.run(tenant.server.conn, calls.register_worker(worker, [f"q{number}"], slots=1, host=form))
    [job] = db.run(tenant.server.conn, calls.claim_jobs(worker, {f"q{number}": 1}, lease_s=3600))
    assert job.job_id == UUID(tenant.ids[kind][number])
    notes: list[tuple[str, dict[str, Any]]] = [
        ("log", {"level": "info", "message": form, form: form, "html": {form: form}}),
        ("log", {"level": form, "message": form}),
        ("progress", {"done": 1, "total": 2, "message": form}),
        ("event", {"name": form, "data": {form: form}}),
    ]
    for note, data in notes:
        tenant.run(calls.note_jobs(worker, [Note(*job.token, note, data)]))
    tenant.run(calls.save_steps(worker, [Step(*job.token, form, 0, {form: form})]))
    output = OutcomeReport(
        *job.token, Outcome.SUCCEEDED, job.started_at, stdout_tail=form, stderr_tail=form
    )
    if is_dead:
        error: dict[str, Any] = {"type": form, "message": form, "traceback": form, form: form}
        report = output._replace(outcome=Outcome.FAILED, error=error, reason=form)
    else:
        result: dict[str, Any] = {form: form, "list": [form], **OBJECTS}
        report = output._replace(result=result)
    tenant.run(calls.complete_job(worker, report))


def annotate_failures(tenant: InjectedTenant) -> None:
    groups = tenant.server.client("viewer").get("/failures", params={"limit": 200}).json()["items"]
    for number, (group, form) in enumerate(zip(groups, FORMS, strict=False)):
        tenant.ids.setdefault("failure", {})[number] = group["fingerprint"]
        tenant.patch(f"/failures/{group['fingerprint']}", {"note": form})
