"""Tests that the Kubernetes files match the schemas of Kubernetes, and that the chart renders the same objects."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import kubernetes_validate
import pytest
import yaml
from beam_runner_server.flags import parse_settings
from beam_spark_executor.program import SparkProgram
from server_commands import DEPLOY, read_containers, read_manifests

KUBERNETES = ("1.30", "1.34", "1.37")
CHART = DEPLOY / "helm" / "beam-spark"
STORES = ("--set=stateDir=s3://BUCKET/state", "--set=dataDir=s3://BUCKET/data")
ALL_VALUES = (
    "--set=image.pullSecrets={first,second}",
    "--set=image.tag=v9",
    "--set=replicas=3",
    "--set=tokenSecret=mine",
    "--set=storeSecret=keys",
    "--set=executors.instances=1000000",
    "--set=serviceAccount.annotations.role=reader",
    "--set=extraArgs={--hide-elements,--bulk=never}",
)
HELM = shutil.which("helm") or ""
KUBECTL = shutil.which("kubectl") or ""
with_helm = pytest.mark.skipif(not HELM, reason="NOT RUN: there is no helm on the path")
with_kubectl = pytest.mark.skipif(not KUBECTL, reason="NOT RUN: there is no kubectl on the path")


def run(*command: str, code: int = 0) -> str:
    """Returns the output of a command that must end with ``code``."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def render_chart(*values: str, release: str = "beam-spark", code: int = 0) -> str:
    """Returns the rendered chart, or the error if the ``code`` isn't 0."""
    # A helm from `go install` doesn't know its version of Kubernetes.
    version = f"--kube-version={KUBERNETES[-1]}"
    where = ("--namespace=beam-spark", version)
    return run(HELM, "template", release, str(CHART), *where, *values, code=code)


def read(text: str) -> dict[tuple[str, str], Any]:
    """Returns the objects of a manifest by kind and name."""
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text)}


def check_schemas(text: str) -> None:
    """Checks each object and the template of executor pods against the strict schemas."""
    objects = [one for one in yaml.safe_load_all(text) if one]
    assert objects
    templates = [
        yaml.safe_load(value)
        for one in objects
        if one["kind"] == "ConfigMap"
        for name, value in one["data"].items()
        if name.endswith(".yaml")
    ]
    assert len(templates) == 1
    for one in (*objects, *templates):
        for version in KUBERNETES:
            kubernetes_validate.validate(one, version, strict=True)


def without_labels_of_helm(objects: dict[tuple[str, str], Any]) -> dict[tuple[str, str], Any]:
    """Returns the objects without the labels and the namespace that depend on the tool."""
    for one in objects.values():
        one["metadata"].pop("namespace", None)
        for label in ("helm.sh/chart", "app.kubernetes.io/managed-by"):
            one["metadata"].get("labels", {}).pop(label, None)
    return objects


@pytest.fixture(scope="module")
def kustomized() -> str:
    return run(KUBECTL, "kustomize", str(DEPLOY / "kubernetes"))


def test_kubernetes_manifests_match_the_schemas() -> None:
    files = [one for one in DEPLOY.glob("kubernetes/*.yaml") if one.stem != "kustomization"]
    check_schemas("\n---\n".join(one.read_text(encoding="utf-8") for one in files))


def test_schema_check_finds_a_misspelt_field() -> None:
    text = (DEPLOY / "kubernetes" / "server.yaml").read_text(encoding="utf-8")
    wrong = yaml.safe_load(text.replace("periodSeconds", "periodSecond").partition("---")[0])
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES[-1], strict=True)


@with_kubectl
def test_kustomized_manifests_match_the_schemas(kustomized: str) -> None:
    check_schemas(kustomized)


@with_kubectl
def test_kustomization_sets_namespace_and_image_of_executors(kustomized: str) -> None:
    objects = read(kustomized)
    assert {one["metadata"]["namespace"] for one in objects.values()} == {"beam-spark"}
    binding = objects["RoleBinding", "beam-spark"]
    assert [one["namespace"] for one in binding["subjects"]] == ["beam-spark"]
    (server,) = read_containers(list(objects.values()))
    image = {one["name"]: one.get("value") for one in server["env"]}["EXECUTOR_IMAGE"]
    assert image == server["image"] != "beam-spark"


@with_helm
def test_helm_chart_passes_its_linter() -> None:
    run(HELM, "lint", "--strict", str(CHART), *STORES)


@with_helm
@pytest.mark.parametrize("values", [(), ALL_VALUES], ids=["defaults", "all values"])
@pytest.mark.parametrize("release", ["beam-spark", "x" * 53])
def test_rendered_helm_chart_matches_the_schemas(values: tuple[str, ...], release: str) -> None:
    text = render_chart(*STORES, *values, release=release)
    check_schemas(text)
    (line,) = read_manifests("chart", text)
    parse_settings(line.arguments, SparkProgram())


@with_helm
@with_kubectl
def test_helm_chart_renders_the_same_objects_as_the_manifests(kustomized: str) -> None:
    rendered, plain = (
        without_labels_of_helm(read(one)) for one in (render_chart(*STORES), kustomized)
    )
    assert rendered.keys() == plain.keys()
    for key, one in plain.items():
        assert rendered[key] == one


@with_helm
@pytest.mark.parametrize(
    "wrong",
    [
        "--set=stateDir=",
        "--set=dataDir=/a/folder",
        "--set=replicas=0",
        "--set=executors.memory=1G",
        "--set=executors.core=1",
        "--set=extraArgs={hide-elements}",
        "--set=image.repository=",
        "--set=tokenSecret=",
    ],
)
def test_helm_chart_refuses_a_wrong_value(wrong: str) -> None:
    name = wrong.split("=")[1].partition(".")[0]
    assert name in render_chart(*STORES, wrong, code=1)


@with_helm
def test_helm_chart_uses_each_of_its_values() -> None:
    objects = read(render_chart(*STORES, *ALL_VALUES))
    deployment = objects["Deployment", "beam-spark"]["spec"]
    pod = deployment["template"]["spec"]
    (server,) = pod["containers"]
    assert deployment["replicas"] == 3
    assert server["args"][-2:] == ["--hide-elements", "--bulk=never"]
    assert [one["name"] for one in pod["imagePullSecrets"]] == ["first", "second"]
    assert any(one.endswith("pullSecrets=first,second") for one in server["args"])
    assert pod["volumes"][0]["secret"]["secretName"] == "mine"
    assert server["envFrom"][1]["secretRef"]["name"] == "keys"
    assert "name: keys" in objects["ConfigMap", "beam-spark-executor"]["data"]["pod.yaml"]
    assert objects["ConfigMap", "beam-spark"]["data"]["EXECUTORS"] == "1000000"
    for account in ("beam-spark", "beam-spark-executor"):
        annotations = objects["ServiceAccount", account]["metadata"]["annotations"]
        assert annotations == {"role": "reader"}
