"""Tests that each documented command line is valid, and that the Kubernetes manifests fit together."""

from __future__ import annotations

import re
from contextlib import nullcontext, suppress
from typing import Any

import pytest
import yaml
from beam_runner_server.flags import InvalidFlag, parse_settings
from beam_runner_web.asgi.health import HEALTH_PATHS
from beam_spark_executor.program import SparkProgram
from server_commands import (
    DEPLOY,
    CommandLine,
    list_command_lines,
    read_containers,
    read_manifests,
    read_page,
)

LINES = list_command_lines()
PROGRAM = SparkProgram()


def check(line: CommandLine) -> None:
    """Checks a command line with the program's parser, and only the name of other commands."""
    if line.arguments[:1] and not line.arguments[0].startswith("-"):
        assert line.arguments[0] in PROGRAM.commands, line
        return
    # After `--version`, the parser exits with 0.
    with suppress(SystemExit) if "--version" in line.arguments else nullcontext():
        parse_settings(line.arguments, PROGRAM)


@pytest.fixture(scope="module")
def manifests() -> list[Any]:
    files = sorted(DEPLOY.glob("kubernetes/*.yaml"))
    return [one for file in files for one in yaml.safe_load_all(file.read_text(encoding="utf-8"))]


@pytest.fixture(scope="module")
def server(manifests: list[Any]) -> Any:
    (found,) = read_containers(manifests)
    return found


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.source)
def test_documented_command_line_is_accepted_by_its_program(line: CommandLine) -> None:
    check(line)


@pytest.mark.parametrize(
    "source",
    [
        "README.md",
        "docs/how-to/deployment.md",
        "deploy/kubernetes/server.yaml",
        "deploy/systemd/beam-spark.service",
        "deploy/docker/Dockerfile",
        "deploy/standalone/README.md",
    ],
)
def test_command_line_search_finds_lines_in_each_kind_of_file(source: str) -> None:
    assert source in {line.source for line in LINES}


def test_command_line_check_finds_unknown_flags_in_pages_and_manifests() -> None:
    page = "```\nbeam-spark-jobserver --job-port 1 \\\n    --no-such-flag 2\n```\n"
    manifest = {
        "kind": "Deployment",
        "spec": {"template": {"spec": {"containers": [{"args": ["--no-such-flag"]}]}}},
    }
    (of_page,) = read_page("page", page)
    (of_manifest,) = read_manifests("manifest", yaml.safe_dump(manifest))
    for line in (of_page, of_manifest):
        with pytest.raises(InvalidFlag, match="--no-such-flag"):
            check(line)


def test_manifest_defines_variables_in_container_arguments(
    manifests: list[Any], server: Any
) -> None:
    used = set(re.findall(r"\$\((\w+)\)", " ".join(server["args"])))
    settings = {one["metadata"]["name"]: one for one in manifests if one["kind"] == "ConfigMap"}
    sources = [one["configMapRef"]["name"] for one in server["envFrom"] if "configMapRef" in one]
    defined = {name for source in sources for name in settings[source]["data"]}
    defined |= {one["name"] for one in server["env"]}
    assert used <= defined
    assert {name for source in sources for name in settings[source]["data"]} <= used


def test_manifest_declares_the_port_of_each_port_flag(server: Any) -> None:
    flags = dict(
        one.removeprefix("--spark-conf=").split("=", 1) for one in server["args"][1:] if "=" in one
    )
    ports = {one["name"]: str(one["containerPort"]) for one in server["ports"]}
    assert ports == {
        "job": flags["--job-port"],
        "web": flags["--web-port"],
        "channel": flags["--channel-port"],
        "driver": flags["spark.driver.port"],
        "blockmanager": flags["spark.driver.blockManager.port"],
    }


def test_manifest_service_selects_the_pods_of_the_deployment(
    manifests: list[Any], server: Any
) -> None:
    of_kind = {one["kind"]: one["spec"] for one in manifests if "spec" in one}
    labels = of_kind["Deployment"]["template"]["metadata"]["labels"]
    assert of_kind["Service"]["selector"] == labels
    assert of_kind["Deployment"]["selector"]["matchLabels"] == labels
    assert of_kind["PodDisruptionBudget"]["selector"]["matchLabels"] == labels
    names = {one["name"] for one in server["ports"]}
    assert {one["targetPort"] for one in of_kind["Service"]["ports"]} <= names


def test_manifest_probes_use_paths_that_need_no_token(server: Any) -> None:
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert server[probe]["httpGet"]["path"] in HEALTH_PATHS
        assert server[probe]["httpGet"]["port"] == "web"
    assert server["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_manifest_mounts_files_in_container_arguments(manifests: list[Any], server: Any) -> None:
    (deployment,) = (one for one in manifests if one["kind"] == "Deployment")
    volumes = {one["name"]: one for one in deployment["spec"]["template"]["spec"]["volumes"]}
    template = next(one.rpartition("=")[2] for one in server["args"] if "podTemplateFile" in one)
    folder, _, file = template.rpartition("/")
    mounts = {one["mountPath"]: one["name"] for one in server["volumeMounts"]}
    source = volumes[mounts[folder]]["configMap"]["name"]
    (config,) = (
        one for one in manifests if one["kind"] == "ConfigMap" and one["metadata"]["name"] == source
    )
    assert yaml.safe_load(config["data"][file])["kind"] == "Pod"
    token = next(one.partition("=")[2] for one in server["args"] if one.startswith("--token-file"))
    assert token.rpartition("/")[0] in mounts


def test_manifest_runs_two_servers_as_standby_on_one_store(
    manifests: list[Any], server: Any
) -> None:
    (deployment,) = (one for one in manifests if one["kind"] == "Deployment")
    assert deployment["spec"]["replicas"] == 2
    assert "--standby" in server["args"]
