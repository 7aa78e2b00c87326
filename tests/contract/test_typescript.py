"""The TypeScript SDK fulfills the contract, and works together with the Python SDK."""

import fcntl
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from uuid import UUID

import httpx2
import pytest
from api.api_server import open_api_server
from attacks import Attempts
from cluster import Database, wait_until
from contract.secret_strings import redacted_samples
from contract.typescript_sdk import ROOT, node, run_node, sdk, urls_of, worker_command

from jobforge import calls, db
from jobforge.types.events import DeliveryOutcome, EventDelivery
from jobforge.types.jobs import JobRequest
from jobforge.types.triggers import TriggerType

ACME = UUID("aaaaaaaa-0000-4000-8000-000000000000")


SUITES = [
    *("sdk", "link", "contract", "notes", "worker", "isolation"),
    pytest.param("redact", marks=pytest.mark.attack("redaction")),
    pytest.param("attacks", marks=pytest.mark.attack("messages to the worker")),
]


@pytest.mark.parametrize("file", SUITES)
def test_the_suite_of_the_sdk_passes(
    file: str, database: Database, tmp_path: Path, attempts: Attempts
) -> None:
    texts = tmp_path / "texts.json"
    texts.write_text(json.dumps(redacted_samples() if file == "contract" else []))
    environment = {"JOBFORGE_TEST_URLS": urls_of(database), "JOBFORGE_TEST_TEXTS": str(texts)}
    output = run_node(f"tests/{file}.test.ts", environment=environment)
    attempts(int(re.findall(r"^\S pass (\d+)$", output, re.MULTILINE)[-1]))


def test_the_suite_of_the_http_client_passes_on_a_real_server(database: Database) -> None:
    with open_api_server(database) as served:
        key = served.a.keys["tenant_admin"]
        server = json.dumps({"url": served.url, "key": key, "definition": "mail"})
        run_node("tests/http.test.ts", environment={"JOBFORGE_TEST_SERVER": server})


def test_the_errors_of_both_languages_have_one_source() -> None:
    written = _script("write_errors")
    assert written.TABLE.read_text(encoding="utf-8") == written.json_text(), _STALE
    assert written.TYPESCRIPT.read_text(encoding="utf-8") == written.typescript(), _STALE


def test_the_types_of_the_http_api_are_those_of_its_openapi_document() -> None:
    written = _script("write_http_types")
    with written.TYPES.open(encoding="utf-8") as types:
        assert types.readline() == written.mark(written.document()), _STALE


def test_workers_of_both_languages_share_one_queue(database: Database, tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(_PYTHON_APP)
    python = [sys.executable, "-m", "jobforge", "worker", str(app)]
    queues = ("--queues", "faults:4")
    environment = {"JOBFORGE_DATABASE_URL": database.url}
    payload = {"marks": str(tmp_path / "marks"), "seconds": 0}
    requests = [JobRequest(key, payload) for key in ("light", "python.only") * 20]
    with (
        db.connect(database.url) as conn,
        _serving([*python, *queues], tmp_path, environment),
        _serving([*worker_command("faults_app.ts"), *queues], tmp_path, environment),
    ):
        wait_until(lambda: len(db.run(conn, calls.list_workers())) == len(_LANGUAGES), within_s=60)
        created = db.run(conn, calls.enqueue_jobs(requests, tenant_id=ACME))
        wait_until(lambda: conn.execute(_UNFINISHED).fetchone() == (0,), within_s=60)
        jobs = [db.run(conn, calls.get_job(each.job_id, tenant_id=ACME)).job for each in created]

    assert {(job.state, job.attempt) for job in jobs} == {("succeeded", 1)}
    served = {(job.worker_id, job.definition) for job in jobs}
    assert len(served) == len({worker_id for worker_id, _ in served}) == len(_LANGUAGES)
    assert {job.result for job in jobs} == {1, "python"}


def test_events_with_one_key_create_one_job_and_events_with_two_keys_create_two(
    database: Database, tmp_path: Path
) -> None:
    paid = {"label": "ship it", "definition": "ship", "event": "order.paid"}
    environment = {"JOBFORGE_DATABASE_URL": database.url}
    with db.connect(database.url) as conn:
        db.run(conn, calls.put_definition("ship", 1))
        db.run(conn, calls.create_trigger(TriggerType.EVENT, paid, tenant_id=ACME))
        output = run_node("--input-type=module", "-e", _EMIT, environment=environment)
        events = [UUID(each) for each in json.loads(output)]

        def deliveries() -> list[EventDelivery]:
            found = [db.run(conn, calls.get_event(each, tenant_id=ACME)) for each in events]
            return [delivery for event in found for delivery in event.deliveries]

        with _serving([sys.executable, "-m", "jobforge", "scheduler"], tmp_path, environment):
            wait_until(lambda: len(deliveries()) == len(events), within_s=60)
        first, again, other = deliveries()
    assert [each.outcome for each in (first, again, other)] == [
        DeliveryOutcome.ENQUEUED,
        DeliveryOutcome.DEDUPLICATED,
        DeliveryOutcome.ENQUEUED,
    ]
    assert first.job_id == again.job_id != other.job_id


def test_a_worker_exits_on_a_signal_although_its_app_keeps_the_loop_open(
    database: Database, tmp_path: Path
) -> None:
    app = tmp_path / "app.ts"
    app.write_text(_APP_WITH_A_TIMER.replace("SDK", str(sdk() / "src" / "index.ts")))
    environment = {"JOBFORGE_DATABASE_URL": database.url}
    with (
        db.connect(database.url) as conn,
        _serving(worker_command(str(app)), tmp_path, environment),
    ):
        wait_until(lambda: len(db.run(conn, calls.list_workers())) == 1, within_s=60)


@pytest.mark.parametrize("url", ["{}:notaport/db", "[{}/db", "{}:1/db", "{}:1/db?sslrootcert=/x"])
def test_startup_errors_of_a_worker_do_not_show_the_password(url: str, tmp_path: Path) -> None:
    app = tmp_path / "app.ts"
    app.write_text(_APP_THAT_FAILS.replace("SDK", str(sdk() / "src" / "index.ts")))
    url = url.format("postgresql://app:kanari0123456789@127.0.0.1")
    for given, variables in ([], {"JOBFORGE_DATABASE_URL": url}), (["--database-url", url], {}):
        for fails in ("", url):
            done = subprocess.run(
                [*worker_command(str(app)), "--queues", "q:1", *given],
                env=node().environment() | variables | {"FAILS_WITH": fails},
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert done.returncode != 0
            assert "jobforge-worker: " in done.stderr
            assert "kanari" not in done.stdout + done.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with only the packed package installed; all test processes share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "typescript"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _program(folder).exists():
            _make_project(folder)
    return folder


def _make_project(folder: Path) -> None:
    one, two = _pack(folder / "one"), _pack(folder / "two")
    assert one.read_bytes() == two.read_bytes(), "it is not built the same twice"
    (folder / "package.json").write_text('{"name": "empty", "private": true, "type": "module"}')
    wanted = (str(one), "pg@8", "zod@4")
    done = node().npm(folder, "install", "--prefer-offline", "--no-audit", *wanted)
    assert done.returncode == 0, done.stderr


def test_a_package_packed_in_a_clone_can_be_imported(tmp_path: Path) -> None:
    modules = tmp_path / "project" / "node_modules"
    modules.mkdir(parents=True)
    for dependency in ("pg", "zod"):  # without npm, which would download them
        (modules / dependency).symlink_to(sdk() / "node_modules" / dependency)
    with tarfile.open(_pack(tmp_path / "clone")) as archive:
        archive.extractall(modules / "@jobforge", filter="data")
    (modules / "@jobforge" / "package").rename(modules / "@jobforge" / "sdk")
    output = run_node("--input-type=module", "-e", _IMPORTS, folder=modules.parent)
    assert output.split() == ["JobForge", "Worker", "ServerClient"]
    help_of_worker = run_node(str(modules / "@jobforge/sdk/dist/cli.js"), "--help")
    assert help_of_worker.startswith("jobforge-worker MODULE")


def test_the_package_runs_the_jobs_of_the_guide(database: Database, project: Path) -> None:
    page = (ROOT / "docs" / "typescript.md").read_text(encoding="utf-8")
    for name in ("jobs.ts", "steps.ts"):
        block = page.partition(f"```ts\n// {name}\n")[2].partition("```")[0]
        (project / name).write_text(block)
    (project / "ask.ts").write_text(_ASK)
    with db.connect(database.url) as conn:
        db.run(conn, calls.put_tenant(ACME, {"slug": "acme"}))
    environment = {"JOBFORGE_DATABASE_URL": database.url}
    with _serving([str(_program(project)), "jobs.ts"], project, environment):
        answer = run_node("ask.ts", folder=project, environment=environment)
    assert json.loads(answer) == [
        {"sent": 1},
        {"receipt": "receipt of 7", "squares": [4, 9], "rated": False},
    ]


@pytest.mark.skipif(
    "JOBFORGE_LONG" not in os.environ, reason="installs 300 MB; JOBFORGE_LONG=1 asks for it"
)
def test_a_job_joins_a_transaction_of_prisma(database: Database, project: Path) -> None:
    folder = project / "prisma"
    folder.mkdir()
    (folder / "package.json").write_text('{"name": "prisma", "private": true, "type": "module"}')
    (folder / "schema.prisma").write_text(_PRISMA_SCHEMA)
    (folder / "enqueue.ts").write_text(_PRISMA)
    wanted = ("prisma@7", "@prisma/client@7", "@prisma/adapter-pg@7")
    done = node().npm(folder, "install", "--prefer-offline", "--ignore-scripts", *wanted)
    assert done.returncode == 0, done.stderr
    # The client can be generated without the engines, which Prisma would download.
    engines = {"PRISMA_SCHEMA_ENGINE_BINARY": sys.executable}
    command = (str(folder / "node_modules/prisma/build/index.js"), "generate")
    run_node(*command, "--schema", "schema.prisma", folder=folder, environment=engines)
    environment = {"JOBFORGE_DATABASE_URL": database.url}
    answer = json.loads(run_node("enqueue.ts", folder=folder, environment=environment))
    assert answer == {"states": ["queued", "not_found"], "refused": "unknown_definition"}


def test_a_bundle_for_browsers_refuses_to_load(project: Path) -> None:
    with pytest.raises(AssertionError, match="runs on servers only"):
        run_node("--conditions=browser", "-e", 'import("@jobforge/sdk")', folder=project)


def test_the_example_signs_a_user_up_and_welcomes_them(database: Database, project: Path) -> None:
    folder = project / "example"
    shutil.copytree(ROOT / "examples" / "typescript", folder)
    environment = {
        "JOBFORGE_DATABASE_URL": database.url,
        "JOBFORGE_TENANT": str(ACME),
        "PORT": "0",
    }
    server = [str(node().NODE), "server.ts"]
    with (
        _serving([str(_program(project)), "jobs.ts"], folder, environment),
        _serving(server, folder, environment) as served,
    ):
        assert served.stdout is not None
        url = f"http://127.0.0.1:{json.loads(served.stdout.readline())['port']}"
        client = httpx2.Client(base_url=url, trust_env=False)
        with client:
            user = {"email": "ada@example.com", "name": "Ada"}
            job = client.post("/signup", json=user).json()["job"]
            wait_until(lambda: client.get(f"/jobs/{job}").json()["state"] == "succeeded")
            assert client.get(f"/jobs/{job}").json()["result"] == "Welcome, Ada!"
            assert "duplicate key" in client.post("/signup", json=user).json()["error"]


def _program(project: Path) -> Path:
    return project / "node_modules" / ".bin" / "jobforge-worker"


@contextmanager
def _serving(
    command: list[str], folder: Path, environment: dict[str, str]
) -> Iterator["subprocess.Popen[str]"]:
    """Run a program; it must exit without an error after SIGTERM."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=node().environment() | environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)
    assert process.returncode == 0


def _pack(folder: Path) -> Path:
    """Pack a copy of the SDK as in a clone, which has no build. The files have no timestamps."""
    source = sdk()
    left_out = shutil.ignore_patterns("node_modules", "dist", "tests", "codegen")
    shutil.copytree(source, folder, ignore=left_out, dirs_exist_ok=True)
    (folder / "node_modules").symlink_to(source / "node_modules")
    done = node().npm(folder, "pack")
    assert done.returncode == 0, done.stderr
    (archive,) = folder.glob("*.tgz")
    return archive


def _script(name: str) -> ModuleType:
    node()  # which the script may import
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_LANGUAGES = ("python", "typescript")
_UNFINISHED = "select count(*) from jobforge.jobs"
_PYTHON_APP = """
from jobforge import JobForge

jf = JobForge()


@jf.job(key="python.only", queue="faults", isolation="inline")
async def python_only(marks: str, seconds: float) -> str:
    return "python"
"""
_APP_WITH_A_TIMER = """
import { JobForge } from "SDK";

export const jf = new JobForge();
jf.job("noop", { isolation: "inline" }, () => undefined);
setInterval(() => undefined, 1000);
"""
_APP_THAT_FAILS = """
import { JobForge } from "SDK";

export const jf = new JobForge();
jf.job("noop", { isolation: "inline" }, () => undefined);
if (process.env.FAILS_WITH) throw new Error(`cannot reach ${process.env.FAILS_WITH}`);
"""
_STALE = "run scripts/write_errors.py or scripts/write_http_types.py"
_PRISMA_SCHEMA = """
generator client {
  provider = "prisma-client"
  output   = "generated"
}

datasource db {
  provider = "postgresql"
}
"""
_PRISMA = """
import { JobForge } from "@jobforge/sdk";
import { PrismaPg } from "@prisma/adapter-pg";
import { PrismaClient } from "./generated/client.ts";

const url = process.env.JOBFORGE_DATABASE_URL;
const jf = new JobForge(url, { tenant: "aaaaaaaa-0000-4000-8000-000000000000" });
const greet = jf.job("greet", {}, () => undefined);
await jf.register();
const unknown = jf.job("unknown", {}, () => undefined);
const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url }) });
const enqueue = (definition) =>
  prisma.$transaction((conn) => definition.using({ conn }).enqueue({}));

const kept = await enqueue(greet);
let gone;
await prisma
  .$transaction(async (conn) => {
    gone = await greet.using({ conn }).enqueue({});
    throw new Error("rolled back");
  })
  .catch(() => undefined);
const refused = await enqueue(unknown).catch((error) => error.code);
const states = await Promise.all(
  [kept, gone].map((each) => each.job().then((job) => job.state, (error) => error.code)),
);
console.log(JSON.stringify({ states, refused }));
await Promise.all([prisma.$disconnect(), jf.close()]);
"""
_EMIT = f"""
import {{ JobForge }} from "./src/index.ts";

const jf = new JobForge(undefined, {{ tenant: "{ACME}" }});
const events = [];
for (const key of ["payment-1", "payment-1", "payment-2"])
  events.push(await jf.emit("order.paid", {{ amount: 20 }}, {{ key }}));
console.log(JSON.stringify(events));
await jf.close();
"""
_IMPORTS = """
import { JobForge } from "@jobforge/sdk";
import { ServerClient } from "@jobforge/sdk/http";
import { Worker } from "@jobforge/sdk/worker";

for (const { name } of [JobForge, Worker, ServerClient]) console.log(name);
"""
_ASK = """
import { Worker } from "@jobforge/sdk/worker";
import { jf, sendWelcome } from "./jobs.ts";
import * as steps from "./steps.ts";

await jf.register();
await steps.jf.register();
const sent = await sendWelcome.enqueue({ to: "ada@example.com" });
const ordered = await steps.handleOrder.enqueue({ order: 7, parts: [2, 3] });
const worker = new Worker(steps.jf, { module: new URL("./steps.ts", import.meta.url).href });
const running = worker.run();
const results = await Promise.all([sent, ordered].map((each) => each.result({ timeout: 60 })));
console.log(JSON.stringify(results));
worker.stop();
await running;
await Promise.all([jf.close(), steps.jf.close()]);
"""
