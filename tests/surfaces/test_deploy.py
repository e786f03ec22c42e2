"""The files in deploy/: what can be run here is run, the rest is held against the published schemas."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import jsonschema
import pytest
from ruamel.yaml import YAML

from penstock._gateway.config import read_config
from penstock.testing import Reply, play, scripted
from tests.support.paths import PROJECT
from tests.support.process import Gateway, gateway
from tests.support.servers import NginxServer, PrometheusServer

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = PROJECT
DEPLOY = ROOT / "deploy"
SCHEMAS = ROOT / "tests" / "data" / "schemas"
DRAFT7: Any = jsonschema.Draft7Validator
DRAFT2020: Any = jsonschema.Draft202012Validator
LIMIT = 60.0


def read_yaml(path: Path) -> list[Any]:
    yaml: Any = YAML(typ="safe", pure=True)
    return list(yaml.load_all(path))


# ── the dashboard ─────────────────────────────────────────────────────────────────────────────────


def queries() -> Iterator[tuple[str, str]]:
    for panel in json.loads((DEPLOY / "grafana" / "penstock.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def test_every_query_of_the_dashboard_has_an_answer(tmp_path: Path) -> None:
    """Prometheus scrapes a gateway of two workers that has served turns, failed ones and refused ones."""
    with scripted(Reply.body(b"{}", status=500)) as broken, scripted(Reply.of("", play("text"))) as works:
        config = (
            "retries = 0\n[keys.alice]\nenv = 'ALICE'\nteam = 'research'\n[teams.research]\n[access]\nmetrics = 'open'\n"
            f"[providers.broken]\nbase_url = '{broken.url}/v1'\nkey = 'k'\n"
            f"[providers.lab]\nbase_url = '{works.url}/v1'\nkey = 'k'\n[providers.lab.models.m.prices]\ninput = 10\noutput = 10\n"
        )
        with gateway(tmp_path, config, "--workers", "2", ALICE="planted-alice-key") as server:
            prometheus = PrometheusServer(server.base.removeprefix("http://"))
            try:
                prometheus.start()
                ends = time.monotonic() + LIMIT
                left: set[tuple[str, str]] = {*queries()}
                while left:
                    assert time.monotonic() < ends, sorted(left)
                    for model, key in (("lab/m", "planted-alice-key"), ("broken/m", "planted-alice-key"), ("x", "no")):
                        body = {"model": model, "messages": [{"role": "user", "content": "?"}]}
                        headers = {"authorization": f"Bearer {key}"}
                        httpx.post(f"{server.base}/v1/chat/completions", json=body, headers=headers, timeout=LIMIT)
                    left = {one for one in left if not has_answer(prometheus, one[1])}
                spent = "last_over_time(penstock_key_cost_dollars_total[5m])"  # the last scrape may have failed
                assert {"alice"} == {one["metric"]["key"] for one in ask(prometheus, spent)}
                assert {"research"} == {one["metric"]["team"] for one in ask(prometheus, spent)}
            finally:
                prometheus.close()


def has_answer(prometheus: PrometheusServer, expression: str) -> bool:
    plain = expression.replace("$__rate_interval", "10s").replace("$job", ".*")
    return any(one["value"][1] != "NaN" for one in ask(prometheus, plain))


def ask(prometheus: PrometheusServer, expression: str) -> list[Any]:
    reply = httpx.get(f"{prometheus.url}/api/v1/query", params={"query": expression}, timeout=LIMIT).json()
    assert reply["status"] == "success", (expression, reply)
    return list(reply["data"]["result"])


def test_the_dashboard_uses_every_metric_of_keys_and_only_known_ones() -> None:
    tables = read_tables()
    known = {f"penstock_{name}_total" for name in (*tables["counters"], *tables["external_counters"])}
    known |= {f"penstock_{name}" for name in (*tables["gauges"], *tables["levels"])}
    known |= {f"penstock_{name}_bucket" for name in tables["histograms"]}
    used = {name for _, expression in queries() for name in re.findall(r"penstock_\w+", expression)}
    assert used <= known
    assert {name for name in known if "_key_" in name} <= used


def read_tables() -> dict[str, Any]:
    from penstock._gateway import read_tables

    return read_tables()


# ── container, compose, Kubernetes ────────────────────────────────────────────────────────────────


def test_the_compose_file_fits_its_schema_and_the_other_files() -> None:
    [compose] = read_yaml(DEPLOY / "compose.yaml")
    schema = json.loads((SCHEMAS / "compose-spec.json").read_text())
    DRAFT7(schema).validate({name: value for name, value in compose.items() if name != "name"})
    services = compose["services"]
    assert set(services) == {"penstock-1", "penstock-2", "nginx", "postgres", "valkey"}
    named = re.findall(r"server (penstock-\d):4480", (DEPLOY / "nginx.conf").read_text())
    assert named == [name for name in services if name.startswith("penstock")]
    for name in named:
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
        assert services[name]["stop_grace_period"] == "45s"  # longer than serve.drain
    mounted = [one.split(":") for service in services.values() for one in service.get("volumes", ())]
    assert all((DEPLOY / place).exists() for place, *_ in mounted if place.startswith("./"))
    assert {place for place, *_ in mounted if not place.startswith("./")} == set(compose["volumes"])


def test_the_manifests_fit_the_schemas_of_kubernetes_and_each_other() -> None:
    schemas = json.loads((SCHEMAS / "kubernetes-1.37.json").read_text())
    found: dict[str, Any] = {}
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for manifest in read_yaml(path):
            whole = {"$ref": f"#/$defs/{schemas['kinds'][manifest['kind']]}", "$defs": schemas["$defs"]}
            DRAFT2020(whole).validate(manifest)
            found[manifest["kind"]] = manifest
    assert set(found) == set(schemas["kinds"])
    spec = found["Deployment"]["spec"]
    labels, pod = spec["template"]["metadata"]["labels"], spec["template"]["spec"]
    assert labels == spec["selector"]["matchLabels"] == found["Service"]["spec"]["selector"]
    assert labels == found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]
    [container] = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsNonRoot"] is True
    config = read_config(found["ConfigMap"]["data"]["penstock.toml"], Path("penstock.toml"))
    assert pod["terminationGracePeriodSeconds"] > config.serve.drain + 5


def test_a_wrong_manifest_is_found() -> None:
    schemas = json.loads((SCHEMAS / "kubernetes-1.37.json").read_text())
    whole = {"$ref": f"#/$defs/{schemas['kinds']['Service']}", "$defs": schemas["$defs"]}
    [service] = [one for one in read_yaml(DEPLOY / "kubernetes" / "penstock.yaml") if one["kind"] == "Service"]
    service["spec"]["port"] = 1
    with pytest.raises(jsonschema.ValidationError):
        DRAFT2020(whole).validate(service)


def test_the_configuration_of_the_image_is_valid_and_without_secrets() -> None:
    text = (DEPLOY / "penstock.toml").read_text()
    config = read_config(text, DEPLOY / "penstock.toml")
    assert config.access.proxy
    assert not config.keys
    assert not config.engine.providers


def test_the_image_is_not_of_root_and_has_a_health_check() -> None:
    last = (DEPLOY / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001:10001$", last, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK .*\n.*/healthz", last, re.MULTILINE)
    for line in re.findall(r"^COPY (?!--from)(.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE):
        *sources, _ = line.split()
        assert all((ROOT / source).exists() for source in sources), line


# ── backup ────────────────────────────────────────────────────────────────────────────────────────


def test_a_backup_of_a_gateway_that_serves_is_whole(tmp_path: Path) -> None:
    """As docs/backup.md has it. SQLite's shell calls the same function for `.backup`."""
    (tmp_path / "old").mkdir()
    restored = tmp_path / "new" / "data"
    restored.mkdir(parents=True)
    with gateway(tmp_path / "old", "", "--workers", "2", "--full-speed") as server:
        body = {"model": "replay/text", "input": "?"}
        made = [httpx.post(f"{server.base}/v1/responses", json=body).json()["id"] for _ in range(5)]
        turns = {row["id"] for row in list_turns(server)}
        for path in server.data.glob("*.sqlite"):
            with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(restored / path.name)) as target:
                source.backup(target)
    assert len(turns) == 5
    with gateway(tmp_path / "new", "", "--full-speed") as server:
        assert {row["id"] for row in list_turns(server)} == turns
        assert httpx.get(f"{server.base}/v1/responses/{made[-1]}").is_success


def list_turns(server: Gateway) -> list[Any]:
    ends = time.monotonic() + LIMIT
    place = f"{server.base}/inspector/turns"
    while len(rows := httpx.get(place, headers=server.session).json()["rows"]) < 5:  # other workers write theirs soon
        assert time.monotonic() < ends
        time.sleep(0.05)
    return list(rows)


# ── systemd, nginx ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_the_unit_is_valid(tmp_path: Path) -> None:
    program = tmp_path / "penstock"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = (DEPLOY / "penstock.service").read_text()
    (tmp_path / "penstock.service").write_text(text.replace("/opt/penstock/bin/penstock", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "penstock.service")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


class ShippedNginx(NginxServer):
    """nginx with the configuration of deploy/, on other ports."""

    def _configuration(self) -> str:
        text = (DEPLOY / "nginx.conf").read_text().replace("listen 8080", f"listen 127.0.0.1:{self.port}")
        for number, port in enumerate(self._ports, 1):
            text = text.replace(f"penstock-{number}:4480", f"127.0.0.1:{port}")
        temporary = "".join(
            f"{name}_temp_path {name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        head = f"daemon off; pid {self.folder}/pid; error_log stderr warn;"
        return f"{head}\n{text.replace('http {', f'http {{ access_log off; {temporary}')}"


def test_streams_pass_the_shipped_nginx_event_by_event(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    config = "[serve]\npace = 0.05\n[access]\nproxy = true\nhosts = ['127.0.0.1']\n[keys.alice]\nenv = 'ALICE'\n"
    with (
        gateway(tmp_path / "a", config, ALICE="planted-alice-key") as one,
        gateway(tmp_path / "b", config, ALICE="planted-alice-key") as two,
    ):
        nginx = ShippedNginx([int(server.base.rsplit(":", 1)[1]) for server in (one, two)])
        try:
            nginx.start()
            headers = {"authorization": "Bearer planted-alice-key"}
            body: dict[str, Any] = {"model": "replay/text", "messages": [], "stream": True}
            with httpx.stream("POST", f"{nginx.url}/v1/chat/completions", json=body, headers=headers) as stream:
                assert stream.status_code == 200
                chunks = list(stream.iter_raw())
            assert len(chunks) > 5
            assert b"".join(chunks).endswith(b"data: [DONE]\n\n")
            assert httpx.get(f"{nginx.url}/metrics").status_code == 404
            one.stop()
            assert all(httpx.get(f"{nginx.url}/v1/models", headers=headers).is_success for _ in range(4))
        finally:
            nginx.close()


# ── the chart ─────────────────────────────────────────────────────────────────────────────────────

CHART = DEPLOY / "helm" / "penstock"


def test_the_values_of_the_chart_fit_their_schema_and_its_templates() -> None:
    [values] = read_yaml(CHART / "values.yaml")
    jsonschema.validate(values, json.loads((CHART / "values.schema.json").read_text()))
    read_config(values["config"], Path("penstock.toml"))
    text = "".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))
    used = set(re.findall(r"\.Values\.([A-Za-z]+(?:\.[A-Za-z]+)*)", text))
    for name in used:
        found = values
        for step in name.split("."):
            assert step in found, name
            found = found[step]
    assert {name.split(".")[0] for name in used} == set(values)


@pytest.mark.nightly  # the package is large, and no part of the development environment
def test_the_chart_as_helm_renders_it_fits_the_schemas_of_kubernetes() -> None:
    """Helm's own library, from the package helm-python-sdk; it is not among the project's packages."""
    helm: Any = pytest.importorskip("helm_python.chart", reason="helm-python-sdk is not installed")
    schemas = json.loads((SCHEMAS / "kubernetes-1.37.json").read_text())
    yaml: Any = YAML(typ="safe", pure=True)
    all_on = {"ingress": {"enabled": True, "tlsSecret": "t"}, "autoscaling": {"enabled": True}}
    with helm.Chart.load(str(CHART)) as chart:
        for values, kinds in (({}, 5), (all_on, 7)):
            chart.validate_schema(values)
            rendered = chart.render(values, name="gw").values()
            found = {one["kind"]: one for text in rendered for one in yaml.load_all(text) if one}
            assert len(found) == kinds
            for kind in found.keys() & schemas["kinds"].keys():
                whole = {"$ref": f"#/$defs/{schemas['kinds'][kind]}", "$defs": schemas["$defs"]}
                jsonschema.validate(found[kind], whole)
            [container] = found["Deployment"]["spec"]["template"]["spec"]["containers"]
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
