"""The example of examples/connectors works as shown, and docs/connectors.md is complete."""

import runpy
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4

from cluster import Connection, Database, wait_until
from integration.terminal import InProcessTerminal, Terminal

from jobforge import calls, db, errors
from jobforge.connectors.configuration import seal_secrets
from jobforge.connectors.http_request import HttpRequest
from jobforge.errors import EgressError
from jobforge.security.vault import Vault

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "connectors.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "connectors"
SECRET_KEY = "s" * 40


def test_the_example_ships_an_order_at_the_second_attempt(
    database: Database, conn: Connection, tmp_path: Path
) -> None:
    service = runpy.run_path(str(EXAMPLE / "service.py"))
    tenant, config_id = uuid4(), uuid4()
    with ThreadingHTTPServer(("127.0.0.1", 0), service["Service"]) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"127.0.0.1:{server.server_address[1]}"
        shell = {
            "JOBFORGE_DATABASE_URL": database.url,
            "JOBFORGE_TENANT": "acme",
            "JOBFORGE_EGRESS_ALLOW": address,
            "JOBFORGE_EGRESS_HTTP": "true",
            "JOBFORGE_SECRET_KEY": SECRET_KEY,
        }
        db.run(conn, calls.put_tenant(tenant, {"slug": "acme"}))
        key = db.run(conn, Vault(SECRET_KEY).build_tenant_key_call(tenant))
        config = {
            "name": "shipping",
            "settings": {
                "url": f"http://{address}/",
                "headers": {"Authorization": "Bearer {{secret.token}}"},
            },
            "secrets": seal_secrets({"token": {"value": service["TOKEN"]}}, config_id, key),
        }
        created = calls.create_connector_config(config_id, config).for_tenant(tenant)
        db.run(conn, created)
        try:
            with Terminal(tmp_path, **shell).start("worker", str(EXAMPLE / "app.py")) as worker:
                wait_until(lambda: '"worker.started"' in worker.output)
                terminal = InProcessTerminal(tmp_path, **shell)
                paid = terminal.read_json("enqueue", "pay", "order:=7", "--wait")
                shown = terminal.read_json("jobs", "wait", paid["result"])
        finally:
            server.shutdown()
            thread.join()
    assert shown["result"]["json"] == {"shipped": 7}
    history = db.run(conn, calls.get_job(paid["result"], tenant_id=tenant))
    assert [attempt.error and attempt.error.get("status") for attempt in history.attempts] == [
        503,
        None,
    ]


def test_the_page_names_every_field_and_every_error() -> None:
    fields = [f"| `{name}` |" for name in HttpRequest.model_fields]
    codes = [f"| `{kind.code}` |" for kind in EgressError.__subclasses__()]
    assert [words for words in (*fields, *codes) if words not in PAGE] == []
    assert errors.SealBroken.code in PAGE
