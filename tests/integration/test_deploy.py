"""The files of deploy/ are valid for their tools and name only what exists."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from cluster import BINARIES, Connection, connect_to
from dockerfile_parse import DockerfileParser
from jsonschema_rs import Draft202012Validator, ValidationError
from promql_parser import AggregateExpr, BinaryExpr, Call, MatrixSelector, ParenExpr, VectorSelector

from jobforge.cli import app as commands
from jobforge.config import Config
from jobforge.db.migrate import migrate
from jobforge.db.schema_files import SQL
from jobforge.embedded import Embedded
from jobforge.embedded.binaries import find_binaries
from jobforge.testing.cluster import SETTINGS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
METRICS = set(
    re.findall(r"^\| `(jobforge_\w+)` \|", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE)
)
LABELS = {"queue", "state", "tenant", "table", "definition", "outcome", "route", "status", "le"}
IGNORED = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").split()
KUBERNETES = json.loads(Path(__file__).with_name("kubernetes.json").read_text("utf-8"))


def read(name: str) -> list[Any]:
    return [each for each in yaml.safe_load_all((DEPLOY / name).read_text("utf-8")) if each]


def selectors(expression: Any) -> Iterator[VectorSelector]:
    """Return the series of an expression."""
    match expression:
        case VectorSelector():
            yield expression
        case MatrixSelector():
            yield expression.vector_selector
        case BinaryExpr():
            yield from selectors(expression.lhs)
            yield from selectors(expression.rhs)
        case AggregateExpr() | ParenExpr():
            yield from selectors(expression.expr)
        case Call():
            for argument in expression.args:
                yield from selectors(argument)


def unknown(text: str) -> set[str]:
    """Return the names in an expression that no metric has."""
    parsed = promql_parser.parse(text.replace("$__rate_interval", "5m"))
    found = list(selectors(parsed))
    assert found, text
    names = {re.sub(r"_(bucket|sum|count)$", "", each.name or "") for each in found}
    matched = {matcher.name for each in found for matcher in each.matchers.matchers}
    grouped = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", text))))
    return (names - METRICS) | (matched | grouped) - LABELS - {"instance"}


def test_the_rules_are_valid_promql_and_name_existing_metrics() -> None:
    [alerts] = read("prometheus/alerts.yaml")
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 10
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert unknown(rule["expr"]) == set(), rule["alert"]
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s")), rule["alert"]
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert rule["annotations"]["summary"]
        for command in re.findall(r"`jobforge ([^`]*)`", str(rule["annotations"])):
            _check_command(command.split())
        named = re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))
        assert set(named) <= LABELS | {"instance"}


def test_an_unknown_metric_is_found() -> None:
    assert unknown("sum(rate(jobforge_jbos_total[5m])) > 1 or vector(0)") == {"jobforge_jbos_total"}
    assert unknown('max by (color) (jobforge_jobs{shape="round"})') == {"color", "shape"}
    with pytest.raises(ValueError, match="unclosed"):
        unknown("sum(jobforge_jobs")


def test_the_dashboard_names_existing_metrics_and_its_panels_do_not_overlap() -> None:
    dashboard = json.loads((DEPLOY / "grafana/jobforge.json").read_text("utf-8"))
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places: set[tuple[int, int]] = set()
    shown: set[str] = set()
    for panel in panels:
        at = panel["gridPos"]
        covered = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not places & covered, panel["title"]
        assert at["x"] + at["w"] <= 24
        places |= covered
        for target in panel.get("targets", ()):
            assert unknown(target["expr"]) == set(), panel["title"]
            shown |= set(re.findall(r"jobforge_\w+", target["expr"]))
    assert len(shown) > 20


def test_the_manifests_match_the_kubernetes_schema() -> None:
    manifests = read("kubernetes/jobforge.yaml")
    for manifest in manifests:
        schema_of(manifest).validate(manifest)
    broken = manifests[1]
    broken["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["periodSecond"] = 2
    with pytest.raises(ValidationError, match="periodSecond"):
        schema_of(broken).validate(broken)


def schema_of(manifest: Any) -> Draft202012Validator:
    group, _, version = manifest["apiVersion"].rpartition("/")
    package = group.removesuffix(".k8s.io") or "core"
    kind = f"io.k8s.api.{package}.{version}.{manifest['kind']}"
    return Draft202012Validator({**KUBERNETES, "$ref": f"#/$defs/{kind}"})


def test_containers_of_kubernetes_are_confined_and_probed() -> None:
    manifests = {
        each["metadata"]["name"]: each
        for each in read("kubernetes/jobforge.yaml")
        if "template" in each["spec"]
    }
    for name in ("jobforge-migrate", "jobforge-server", "jobforge-worker"):
        pod = manifests[name]["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        # A Service named jobforge-metrics would set JOBFORGE_METRICS_PORT to tcp://….
        assert pod["enableServiceLinks"] is False
        [container] = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["resources"]["limits"]["memory"]
        _check_environment(entry["name"] for entry in container.get("env", ()))
        _check_command(container["args"])
    server = manifests["jobforge-server"]["spec"]["template"]["spec"]["containers"][0]
    assert server["livenessProbe"]["httpGet"]["path"] == "/health"
    assert server["readinessProbe"]["httpGet"]["path"] == "/ready"
    worker = manifests["jobforge-worker"]["spec"]["template"]["spec"]
    assert worker["terminationGracePeriodSeconds"] > Config().drain_s


def test_every_pod_has_a_network_policy_that_excludes_private_addresses() -> None:
    manifests = read("kubernetes/jobforge.yaml")
    policies = {
        each["metadata"]["name"]: each for each in manifests if "policyTypes" in each["spec"]
    }
    pods = [each["spec"]["template"] for each in manifests if "template" in each["spec"]]
    for pod in pods:
        labels = pod["metadata"]["labels"]
        [policy] = [
            each["spec"]
            for each in policies.values()
            if each["spec"]["podSelector"]["matchLabels"] == labels
        ]
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        for rule in policy["egress"]:
            ports = {each["port"] for each in rule["ports"]}
            assert ports <= {53, 5432, 443}
            if 443 in ports:
                [peer] = rule["to"]
                blocked = [ip_network(each) for each in peer["ipBlock"]["except"]]
                for address in ("10.1.2.3", "169.254.169.254", "172.20.0.1", "192.168.1.1"):
                    assert any(ip_address(address) in each for each in blocked), address


def test_scratch_volumes_have_a_size_limit() -> None:
    for manifest in read("kubernetes/jobforge.yaml"):
        for volume in manifest["spec"].get("template", {}).get("spec", {}).get("volumes", ()):
            assert volume["emptyDir"]["sizeLimit"], volume["name"]


def test_workers_are_scaled_by_an_existing_metric() -> None:
    [scaled] = read("kubernetes/keda.yaml")
    assert (scaled["apiVersion"], scaled["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    targets = {each["metadata"]["name"] for each in read("kubernetes/jobforge.yaml")}
    assert scaled["spec"]["scaleTargetRef"]["name"] in targets
    [trigger] = scaled["spec"]["triggers"]
    assert trigger["type"] == "prometheus"
    assert set(trigger["metadata"]) == {"serverAddress", "query", "threshold"}
    assert unknown(trigger["metadata"]["query"]) == set()
    assert float(trigger["metadata"]["threshold"]) > 0


def test_compose_uses_existing_commands_and_settings() -> None:
    [compose] = read("compose.yaml")
    services = compose["services"]
    assert set(services) == {"postgres", "migrate", "server", "worker"}
    assert services["worker"]["deploy"]["replicas"] == 2
    for name in ("migrate", "server", "worker"):
        _check_environment(services[name]["environment"])
        login = f"//jobs_{'migrator' if name == 'migrate' else name}:"
        assert login in services[name]["environment"]["JOBFORGE_DATABASE_URL"]
        _check_command(services[name]["command"])
        for other in services[name]["depends_on"]:
            assert other in services
    assert (DEPLOY / services["migrate"]["build"]["context"]).samefile(ROOT)
    assert (ROOT / services["migrate"]["build"]["dockerfile"]).exists()
    shared = [set(services[name]["volumes"]) for name in ("server", "worker")]
    assert "data:/data" in shared[0] & shared[1]
    [mounted] = [each.split(":")[0] for each in shared[1] if each.startswith("..")]
    assert (DEPLOY / mounted / "app.py").exists()
    [prometheus] = read("prometheus/prometheus.yaml")
    for file in prometheus["rule_files"]:
        assert (DEPLOY / "prometheus" / file).exists()
    asked = str(prometheus["scrape_configs"])
    assert all(name in asked for name in ("server:8700", "worker", "metrics_token"))


def test_the_logins_of_compose_have_the_rights_that_they_need(folder: Path) -> None:
    """Run the first start of the Postgres image, then the commands of the containers."""
    embedded = Embedded(folder / "pg", bin_dir=BINARIES, settings=SETTINGS)
    embedded.start()  # the fixture stops the server
    server = embedded.running()
    assert server is not None
    with connect_to(server.url()) as admin:
        admin.execute("create database jobforge")
    with connect_to(server.url("jobforge")) as superuser:
        superuser.execute((SQL / "roles.sql").read_bytes())
    subprocess.run(
        ["/bin/sh", DEPLOY / "postgres/create-logins.sh"],
        check=True,
        env={
            "PATH": f"{find_binaries(BINARIES).folder}:{os.environ['PATH']}",
            "PGHOST": str(server.socket_dir),
            "PGPORT": str(server.port),
            "POSTGRES_USER": "postgres",
            "POSTGRES_DB": "jobforge",
            "MIGRATOR_PASSWORD": "it's $secret",
            "SERVER_PASSWORD": "server",
            "WORKER_PASSWORD": "worker",
        },
    )
    with connect_to(server.url("jobforge", user="jobs_migrator")) as migrator:
        migrate(migrator)
    with connect_to(server.url("jobforge", user="jobs_server")) as login:
        login.execute("select jobforge.put_definition('mail', 1)")
        login.execute(
            "select jobforge.enqueue_job('mail', '{}', p_tenant_id => %s)",
            ["aaaaaaaa-0000-4000-8000-000000000001"],
        )
        _check_no_superuser(login)
    url = server.url("jobforge", user="jobs_server")
    create_key = ["keys", "create", "ops", "--super-admin", "--database-url", url]
    subprocess.run([sys.executable, "-m", "jobforge", *create_key], check=True)
    with connect_to(server.url("jobforge", user="jobs_worker")) as login:
        claimed = login.execute(
            "select * from jobforge.claim_jobs(gen_random_uuid(), '{default}', '{1}')"
        ).fetchall()
        assert len(claimed) == 1
        _check_no_superuser(login)


def _check_no_superuser(conn: Connection) -> None:
    row = conn.execute(
        "select rolsuper or rolcreaterole or rolbypassrls as is_powerful"
        "  from pg_roles where rolname = session_user"
    ).fetchone()
    assert row == {"is_powerful": False}


def test_the_image_has_two_stages_and_is_not_root() -> None:
    parsed = DockerfileParser(path=str(DEPLOY / "Dockerfile"))
    steps = [(step["instruction"], step["value"]) for step in parsed.structure]
    assert len(parsed.parent_images) == 2
    assert all(":" in image and "slim" in image for image in parsed.parent_images)
    last = [name for name, _ in steps][::-1].index("FROM")
    final = dict(steps[-last:])
    assert final["USER"] == "10001:10001"
    assert json.loads(final["ENTRYPOINT"]) == ["jobforge"]
    _check_command(json.loads(final["CMD"]))
    assert IGNORED[0] == "*"
    known = {name for name, _ in steps}
    assert known <= {
        *("ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "STOPSIGNAL"),
        *("ENTRYPOINT", "CMD", "COMMENT"),
    }


def test_the_image_build_has_all_files_of_the_wheel() -> None:
    steps = DockerfileParser(path=str(DEPLOY / "Dockerfile")).structure
    copies = [step["value"].split()[:-1] for step in steps if step["instruction"] == "COPY"]
    copied = {each for sources in copies if sources[0] != "--from=build" for each in sources}
    assert [each for each in copied if not (ROOT / each).exists()] == []
    assert copied == {line.removeprefix("!") for line in IGNORED if line.startswith("!")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {"pyproject.toml", "hatch_build.py", "scripts/node.py", "ui", "jobforge"}
    assert needed | {project["readme"], *project["license-files"]} <= copied


def test_the_image_has_a_locked_version_of_each_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = {
        re.split(r"[^\w-]", each)[0].lower()
        for each in (*project["dependencies"], *extras["server"], *extras["s3"])
    }
    locked = re.findall(r"^([\w-]+)==", (ROOT / "requirements/image.txt").read_text(), re.MULTILINE)
    assert sorted(wanted - set(locked)) == []


def test_each_dependency_of_the_image_is_installed_by_its_hash() -> None:
    steps = DockerfileParser(path=str(DEPLOY / "Dockerfile")).structure
    runs = " && ".join(step["value"] for step in steps if step["instruction"] == "RUN")
    installs = [
        words for words in re.split(r"\s*&&\s*", runs) if re.search(r"pip3? install", words)
    ]
    assert [words.split()[-1] for words in installs] == [
        *("requirements/image.txt", "requirements/build.txt", "/wheels/*.whl")
    ]
    for words in installs[:-1]:
        assert "--require-hashes" in words
    assert "--no-deps" in installs[-1]
    [wheel] = [words for words in re.split(r"\s*&&\s*", runs) if "pip wheel" in words]
    assert {"--no-deps", "--no-build-isolation"} <= set(wheel.split())


@pytest.mark.parametrize("name", ["build.txt", "image.txt", "uv.txt", "dev.txt"])
def test_each_locked_version_has_its_hashes(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text("utf-8").replace("\\\n", " ")
    locked = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert locked
    for line in locked:
        assert re.match(r"[\w.\[\],-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line), line


def test_metrics_that_other_machines_can_reach_have_a_token() -> None:
    """The container does not start otherwise."""
    environments = [
        [entry["name"] for entry in container.get("env", ())]
        for manifest in read("kubernetes/jobforge.yaml")
        if "template" in manifest["spec"]
        for container in manifest["spec"]["template"]["spec"]["containers"]
    ]
    [compose] = read("compose.yaml")
    environments += [list(each.get("environment", ())) for each in compose["services"].values()]
    open_to_all = [names for names in environments if "JOBFORGE_METRICS_HOST" in names]
    assert len(open_to_all) == 3  # the worker of Kubernetes; server and workers of Compose
    for names in open_to_all:
        assert "JOBFORGE_METRICS_TOKEN" in names


def test_every_image_can_be_pinned_by_its_digest() -> None:
    """Each image takes its digest from a build argument, a variable, or a line with a comment about
    it.
    """
    digest = "@sha256:"
    dockerfile = (DEPLOY / "Dockerfile").read_text("utf-8")
    sources = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert set(sources) == {"${PYTHON_IMAGE}"}
    assert re.search(rf"PYTHON_IMAGE=\S+{digest}", dockerfile)
    [compose] = read("compose.yaml")
    for service in compose["services"].values():
        assert re.fullmatch(r"\$\{(POSTGRES|JOBFORGE)_IMAGE:-[\w:.]+\}", service["image"])
    assert re.search(rf"POSTGRES_IMAGE=\S+{digest}", (DEPLOY / "compose.yaml").read_text("utf-8"))
    assert digest in (DEPLOY / "kubernetes/jobforge.yaml").read_text("utf-8")


# The first version of each dependency without a known vulnerability that affects JobForge.
FIXED = {
    "cryptography": (50,),
    "orjson": (3, 11, 6),
    "pyjwt": (2, 13),
    "starlette": (1, 3, 1),
    "fastapi": (0, 133, 1),  # the first version that permits this Starlette
}


def test_the_minimum_versions_have_no_known_vulnerabilities() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(each for extra in extras.values() for each in extra)]
    floors: dict[str, list[tuple[int, ...]]] = {}
    for each in wanted:
        if found := re.match(r"([\w-]+)(?:\[[\w,]+\])?>=([\d.]+)", each):
            version = tuple(map(int, found[2].split(".")))
            floors.setdefault(found[1].lower(), []).append(version)
    for name, fixed in FIXED.items():
        assert floors[name], name
        assert all(floor >= fixed for floor in floors[name]), (name, floors[name])


def _check_environment(names: Any) -> None:
    settings = {f"JOBFORGE_{name.upper()}" for name in Config.__dataclass_fields__}
    assert set(names) <= settings


def _check_command(words: list[str]) -> None:
    """Check that each is a command of JobForge with existing options."""
    import typer.main  # noqa: PLC0415 - only the lines below need it

    command: Any = typer.main.get_command(commands)
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    assert not getattr(command, "commands", None), "which of the group?"
    options = {name for each in command.params for name in each.opts}
    assert {word for word in words if word.startswith("--")} <= options
