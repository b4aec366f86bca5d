"""The files for Kubernetes: well formed, and of one mind with docker-compose.yaml, which is run by a test."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import yaml

from tests.docker.composition import CHECKOUT, COMPOSE, filled, settings_of_the_image

FOLDER = CHECKOUT / "docker" / "kubernetes"
TEXT = {"type": "string"}
LIST_OF_NAMED = {"type": "array", "items": {"type": "object", "required": ["name"]}}


def mapping(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


SWITCH = mapping(["enabled"], enabled={"type": "boolean"})
RESOURCES = {"type": "object", "propertyNames": {"enum": ["requests", "limits"]}}
VALUES = mapping(
    ["executor", "images", "env", "secret"],
    executor={"enum": ["LocalExecutor"]},
    airflowVersion=TEXT,
    airflowHome=TEXT,
    uid={"type": "integer"},
    gid={"type": "integer"},
    securityContexts=mapping(["pod", "containers"], pod={"type": "object"}, containers={"type": "object"}),
    images=mapping(["airflow"], airflow=mapping(["repository", "tag"], repository=TEXT, tag=TEXT, digest=TEXT)),
    postgresql=SWITCH,
    data=mapping([], metadataSecretName=TEXT),
    enableBuiltInSecretEnvVars={"type": "object", "additionalProperties": {"type": "boolean"}},
    secret={
        "type": "array",
        "items": mapping(["envName", "secretName"], envName=TEXT, secretName=TEXT, secretKey=TEXT),
    },
    env={"type": "array", "items": mapping(["name", "value"], name=TEXT, value=TEXT)},
    extraEnv=TEXT,
    webserver=mapping([], defaultUser=SWITCH),
    volumes=LIST_OF_NAMED,
    volumeMounts={"type": "array", "items": {"type": "object", "required": ["name", "mountPath"]}},
    scheduler=mapping([], resources=RESOURCES),
    logs=mapping([], persistence=mapping([], enabled={"type": "boolean"}, size=TEXT)),
    redis=SWITCH,
    statsd=SWITCH,
)
"""The part of the schema of Airflow's Helm chart (1.18) that the values use."""


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    return dict(yaml.safe_load((FOLDER / "values.yaml").read_text()))


@pytest.fixture(scope="module")
def objects() -> dict[tuple[str, str], dict[str, Any]]:
    documents = yaml.safe_load_all((FOLDER / "spark.yaml").read_text())
    return {(one["kind"], one["metadata"]["name"]): one for one in documents}


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return dict(filled(yaml.safe_load(COMPOSE.read_text())["services"], {}))


def container(objects: dict[tuple[str, str], dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = objects["Deployment", name]["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_the_values_fit_the_chart(values: dict[str, Any]) -> None:
    jsonschema.validate(values, VALUES)
    assert yaml.safe_load(values["extraEnv"])[0]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    assert {one["name"] for one in values["volumeMounts"]} == {one["name"] for one in values["volumes"]}


def test_values_and_composition_say_the_same(values: dict[str, Any], services: dict[str, Any]) -> None:
    composed = services["scheduler"]["environment"]
    here = {one["name"]: one["value"] for one in values["env"]}
    shared = set(here) & set(composed)
    assert {"CEP_CATALOG", "CEP_SPARK_MASTER", "AIRFLOW_CONN_SPARK_DEFAULT"} <= shared
    assert {name: here[name] for name in shared} == {name: composed[name] for name in shared}
    assert json.loads(here["AIRFLOW_CONN_SPARK_DEFAULT"])["conn_type"] == "spark"
    assert {one["envName"] for one in values["secret"]} <= set(composed)
    assert values["airflowHome"] == settings_of_the_image()["AIRFLOW_HOME"]
    lock = (CHECKOUT / "docker" / "requirements.lock").read_text()
    assert f"\napache-airflow=={values['airflowVersion']} " in lock
    own = {values["airflowHome"], "/tmp", settings_of_the_image()["CEP_CACHE_DIR"]}  # of each pod, without a volume
    mounted = {volume.split(":")[1] for volume in services["scheduler"]["volumes"] if ":" in volume} - own
    assert {one["mountPath"] for one in values["volumeMounts"]} == mounted


def test_spark_is_started_as_in_the_composition(objects: Any, services: dict[str, Any]) -> None:
    assert container(objects, "spark-master")["args"] == services["spark-master"]["command"]
    args = container(objects, "spark-worker")["args"]
    at = args.index("--host")
    assert args[:at] + args[at + 2 :] == services["spark-worker"]["command"]
    assert args[at + 1] == "$(POD_IP)"
    paths = {one["mountPath"] for one in container(objects, "spark-worker")["volumeMounts"]}
    assert {settings_of_the_image()["CEP_WAREHOUSE"], settings_of_the_image()["CEP_DATA"]} <= paths


def test_the_objects_find_each_other(objects: Any, values: dict[str, Any]) -> None:
    names = [("Service", "spark-master")]
    names += [(kind, name) for kind in ("Deployment", "NetworkPolicy") for name in ("spark-master", "spark-worker")]
    assert set(objects) == set(names)
    for name in ("spark-master", "spark-worker"):
        spec = objects["Deployment", name]["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] == {"app": name}
        image = values["images"]["airflow"]
        assert container(objects, name)["image"] == f"{image['repository']}:{image['tag']}"
        assert "limits" in container(objects, name)["resources"]
    assert objects["Service", "spark-master"]["spec"]["selector"] == {"app": "spark-master"}
    pod = objects["Deployment", "spark-worker"]["spec"]["template"]["spec"]
    assert {one["name"] for one in container(objects, "spark-worker")["volumeMounts"]} == {
        one["name"] for one in pod["volumes"]
    }


@pytest.mark.parametrize("name", ["spark-master", "spark-worker"])
def test_a_pod_of_spark_may_do_nothing_but_its_work(objects: Any, name: str) -> None:
    pod, inside = objects["Deployment", name]["spec"]["template"]["spec"], container(objects, name)
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 1000
    assert pod["automountServiceAccountToken"] is False
    assert inside["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(inside["resources"]["limits"]) == {"cpu", "memory"}
    secrets = [one["name"] for one in inside["env"] if "secretKeyRef" in one.get("valueFrom", {})]
    assert secrets == ["CEP_SPARK_SECRET"], "no password of a database, no secret of Airflow"


def test_nobody_is_led_to_the_pages_of_spark(objects: Any, values: dict[str, Any]) -> None:
    assert [one["port"] for one in objects["Service", "spark-master"]["spec"]["ports"]] == [7077]
    for name in ("spark-master", "spark-worker"):
        policy = objects["NetworkPolicy", name]["spec"]
        assert policy["podSelector"] == {"matchLabels": {"app": name}}
        for rule in policy["ingress"]:
            assert all(set(one) == {"podSelector"} for one in rule["from"])
            for port in rule["ports"]:
                open_to = range(port["port"], port.get("endPort", port["port"]) + 1)
                assert 8080 not in open_to and 8081 not in open_to
    assert values["securityContexts"]["containers"]["capabilities"] == {"drop": ["ALL"]}
    assert values["securityContexts"]["containers"]["allowPrivilegeEscalation"] is False


def test_kubernetes_accepts_the_objects(objects: Any, values: dict[str, Any]) -> None:
    kubernetes_validate = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate, with the schemas of Kubernetes, is not installed (100 MB)"
    )
    parts = {
        "name": "task",
        "image": "x",
        "env": yaml.safe_load(values["extraEnv"]),
        "volumeMounts": values["volumeMounts"],
        "resources": values["scheduler"]["resources"],
    }
    parts["securityContext"] = values["securityContexts"]["containers"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "task"},
        "spec": {
            "containers": [parts],
            "volumes": values["volumes"],
            "securityContext": values["securityContexts"]["pod"],
        },
    }
    for one in (*objects.values(), pod):
        kubernetes_validate.validate(one, "1.31", strict=True)
