"""The files for Kubernetes: well formed, and of one mind with docker-compose.yaml, which is run by a test."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import yaml

from tests.docker.composition import CHECKOUT, COMPOSE, SPARK, filled, settings_of_the_image

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
    assert {one["name"] for one in values["volumeMounts"]} == {one["name"] for one in values["volumes"]}


def test_values_and_composition_say_the_same(values: dict[str, Any], services: dict[str, Any]) -> None:
    composed = services["scheduler"]["environment"]
    here = {one["name"]: one["value"] for one in values["env"]}
    shared = set(here) & set(composed)
    assert {"CEP_CATALOG", "AIRFLOW_CONN_SPARK_DEFAULT"} <= shared
    assert {name: here[name] for name in shared} == {name: composed[name] for name in shared}
    assert json.loads(here["AIRFLOW_CONN_SPARK_DEFAULT"])["conn_type"] == "spark_connect"
    secrets = {one["envName"] for one in values["secret"]}
    assert {f"{name}_CMD" for name in secrets - {"PGPASSWORD"}} <= set(composed)
    assert values["airflowHome"] == settings_of_the_image()["AIRFLOW_HOME"]
    lock = (CHECKOUT / "docker" / "airflow.lock").read_text()
    assert f"\napache-airflow=={values['airflowVersion']} " in lock
    own = {values["airflowHome"], "/tmp", settings_of_the_image()["CEP_CACHE_DIR"]}  # of each pod, without a volume
    mounted = {volume.split(":")[1] for volume in services["scheduler"]["volumes"] if ":" in volume} - own
    assert {one["mountPath"] for one in values["volumeMounts"]} == mounted


def properties(text: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))


@pytest.fixture(scope="module")
def settings(objects: Any) -> dict[str, str]:
    """The properties of the Connect server."""
    return properties(objects["ConfigMap", "spark-connect"]["data"]["spark.conf"])


@pytest.fixture(scope="module")
def executor(objects: Any) -> dict[str, Any]:
    """The pod of which Spark makes its executors."""
    return dict(yaml.safe_load(objects["ConfigMap", "spark-executor"]["data"]["pod.yaml"]))


def test_the_server_is_started_as_in_the_composition(
    objects: Any, services: dict[str, Any], settings: dict[str, str]
) -> None:
    here, composed = container(objects, "spark-connect")["args"], services["spark-connect"]["command"]
    assert here[-3:] == composed[-3:]
    assert here[here.index("--master") + 1].startswith("k8s://")
    told = dict(part.split("=", 1) for part in composed if part.startswith("spark."))
    told |= properties((CHECKOUT / "docker" / "spark-defaults.conf").read_text())
    # What Spark knows in a cluster of its own only, or for the log of events.
    apart = ("spark.cores.max", "spark.master.", "spark.eventLog.", "spark.cep.history", "spark.executor.logs.")
    told = {name: value for name, value in told.items() if not name.startswith(apart)}
    assert {name: settings[name] for name in told} == told


def test_the_server_makes_its_executors(
    objects: Any, settings: dict[str, str], executor: dict[str, Any], values: dict[str, Any]
) -> None:
    assert set(objects) == {
        *(("ConfigMap", name) for name in ("spark-connect", "spark-executor")),
        *(("NetworkPolicy", name) for name in ("spark-connect", "spark-executor")),
        *((kind, "spark-connect") for kind in ("Deployment", "Service", "ServiceAccount", "Role", "RoleBinding")),
    }
    pod, inside = (
        objects["Deployment", "spark-connect"]["spec"]["template"]["spec"],
        container(objects, "spark-connect"),
    )
    assert pod["serviceAccountName"] == "spark-connect"
    binding = objects["RoleBinding", "spark-connect"]
    assert binding["roleRef"]["name"] == binding["subjects"][0]["name"] == "spark-connect"
    (rule,) = objects["Role", "spark-connect"]["rules"]
    assert set(rule["resources"]) == {"pods", "configmaps", "persistentvolumeclaims"}
    assert {"create", "watch", "delete"} <= set(rule["verbs"]) and "*" not in rule["verbs"]
    assert settings["spark.kubernetes.container.image"] == inside["image"]
    assert inside["image"].rpartition("/")[0] == values["images"]["airflow"]["repository"].rpartition("/")[0]
    places = {one["mountPath"]: one["name"] for one in inside["volumeMounts"]}
    kinds = {one["name"]: one for one in pod["volumes"]}
    folder, _, file = settings["spark.kubernetes.executor.podTemplateFile"].rpartition("/")
    assert kinds[places[folder]]["configMap"]["name"] == "spark-executor"
    assert file in objects["ConfigMap", "spark-executor"]["data"]
    folder, _, file = inside["args"][inside["args"].index("--properties-file") + 1].rpartition("/")
    assert kinds[places[folder]]["configMap"]["name"] == "spark-connect"
    assert file in objects["ConfigMap", "spark-connect"]["data"]
    (one,) = executor["spec"]["containers"]
    assert settings["spark.kubernetes.executor.podTemplateContainerName"] == one["name"]
    # Spark takes the volumes of these names for what it spills.
    local = {mount["mountPath"] for mount in one["volumeMounts"] if mount["name"].startswith("spark-local-dir-")}
    assert local == {settings_of_the_image(SPARK)["SPARK_LOCAL_DIRS"]}
    assert settings["spark.dynamicAllocation.enabled"] == "true"
    assert int(settings["spark.dynamicAllocation.maxExecutors"]) > 0


def test_tasks_and_executors_find_the_server(
    objects: Any, settings: dict[str, str], values: dict[str, Any], executor: dict[str, Any]
) -> None:
    service, spec = objects["Service", "spark-connect"], objects["Deployment", "spark-connect"]["spec"]
    label = {"app": "spark-connect"}
    assert (
        service["spec"]["selector"]
        == spec["selector"]["matchLabels"]
        == spec["template"]["metadata"]["labels"]
        == label
    )
    assert settings["spark.driver.host"] == service["metadata"]["name"]
    names = ("spark.connect.grpc.binding.port", "spark.driver.port", "spark.driver.blockManager.port")
    assert [one["port"] for one in service["spec"]["ports"]] == [int(settings[name]) for name in names]
    found = json.loads({one["name"]: one["value"] for one in values["env"]}["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert (found["host"], found["port"]) == (service["metadata"]["name"], service["spec"]["ports"][0]["port"])
    for pod in (spec["template"]["spec"], executor["spec"]):
        mounted = {one["name"]: one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
        assert set(mounted) == {one["name"] for one in pod["volumes"]}
        assert mounted["warehouse"] == settings_of_the_image()["CEP_WAREHOUSE"]
        assert mounted["raw"] == settings_of_the_image()["CEP_DATA"]
        assert all(one["emptyDir"].get("sizeLimit") for one in pod["volumes"] if "emptyDir" in one)


def test_a_pod_of_spark_may_do_nothing_but_its_work(objects: Any, executor: dict[str, Any]) -> None:
    server = objects["Deployment", "spark-connect"]["spec"]["template"]["spec"]
    for pod in (server, executor["spec"]):
        (inside,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 1000
        assert inside["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "secretKeyRef" not in str(pod), "no password of a database, no secret of Airflow"
    assert executor["spec"]["automountServiceAccountToken"] is False, "executors cannot make pods"
    assert set(server["containers"][0]["resources"]["limits"]) == {"cpu", "memory"}


def reached(objects: Any, labels: dict[str, str], other: dict[str, str], port: int) -> bool:
    """True if a pod with the labels `other` reaches a port of one with `labels`, by the policies."""
    policies = [one["spec"] for (kind, _), one in objects.items() if kind == "NetworkPolicy"]
    policies = [one for one in policies if one["podSelector"]["matchLabels"].items() <= labels.items()]
    rules = [rule for one in policies for rule in one["ingress"]]
    return not policies or any(
        any(
            set(one) == {"podSelector"} and one["podSelector"]["matchLabels"].items() <= other.items()
            for one in rule["from"]
        )
        and any(one["port"] <= port <= one.get("endPort", one["port"]) for one in rule["ports"])
        for rule in rules
    )


def test_tasks_of_all_executors_reach_the_server_and_nobody_else_does(objects: Any, executor: dict[str, Any]) -> None:
    """The labels are those of the official chart; its template of a pod for the KubernetesExecutor is a worker too."""
    server = objects["Deployment", "spark-connect"]["spec"]["template"]["metadata"]["labels"]
    of_executor = executor["metadata"]["labels"]

    def of_airflow(component: str) -> dict[str, str]:
        return {"tier": "airflow", "component": component, "release": "airflow"}

    for component in ("worker", "scheduler"):
        assert reached(objects, server, of_airflow(component), 15002)
        assert not reached(objects, server, of_airflow(component), 7078)
        assert not reached(objects, of_executor, of_airflow(component), 40000)
    others = [of_airflow(name) for name in ("api-server", "triggerer", "dag-processor", "webserver", "redis")]
    for other in (*others, {"component": "worker"}, {"app": "other"}, of_executor, {}):
        assert not reached(objects, server, other, 15002)
    for port in (7078, 7079):
        assert reached(objects, server, of_executor, port)
    assert not reached(objects, server, of_executor, 4040), "Spark's pages ask for no login"
    assert reached(objects, of_executor, server, 40000) and reached(objects, of_executor, of_executor, 40000)
    assert not reached(objects, of_executor, {"app": "other"}, 40000)


def test_kubernetes_accepts_the_objects(objects: Any, values: dict[str, Any]) -> None:
    kubernetes_validate = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate, with the schemas of Kubernetes, is not installed (100 MB)"
    )
    parts = {
        "name": "task",
        "image": "x",
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
    template = yaml.safe_load(objects["ConfigMap", "spark-executor"]["data"]["pod.yaml"])
    template["metadata"]["name"] = "executor"
    template["spec"]["containers"][0]["image"] = "x"
    for one in (*objects.values(), pod, template):
        kubernetes_validate.validate(one, "1.31", strict=True)
