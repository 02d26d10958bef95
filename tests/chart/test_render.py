"""What an installation consists of, over a table of values."""

import json
import re

import kombu
import pytest
import yaml
from django.core.management import get_commands

from localcluster.directories import CHECKOUT
from osmo_topology import settings
from pools.documents.config_file import read_config_file
from tests.chart.objects import (
    PROCESSES,
    WORKLOADS,
    component,
    container_of,
    environment_of,
    named,
    of_kind,
    ours,
    pod_of,
)
from tests.chart.values import DECLARED, TABLE, merged
from web.env import REFUSED, Environment

COMPOSE = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())["services"]
KNOWN = {f"OSMO_{name.upper()}" for name in Environment.model_fields} | {"OSMO_ADMIN_PASSWORD"}
IMAGE_COMMAND = json.loads(
    re.search(r"^CMD (\[.*\])$", (CHECKOUT / "Dockerfile").read_text(), re.MULTILINE)[1]
)


@pytest.fixture(params=TABLE)
def objects(request, render):
    return render(TABLE[request.param])


def test_every_process_is_there_with_an_account_of_its_own(objects):
    accounts = {account["metadata"]["name"] for account in of_kind(objects, "ServiceAccount")}
    assert set(PROCESSES) < set(ours(objects))
    for name, workload in ours(objects).items():
        own = "train-osmo-topology-" + (name if name in PROCESSES else "jobs")
        assert pod_of(workload)["serviceAccountName"] == own
        assert own in accounts
        calls_clusters = name in {"web", "worker", "observer"}
        assert pod_of(workload)["automountServiceAccountToken"] is calls_clusters


def test_every_process_has_its_three_probes_on_a_port_that_it_opens(objects):
    for name in PROCESSES:
        container = container_of(ours(objects)[name])
        ports = {port["name"] for port in container["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["port"] in ports
        path = container["readinessProbe"]["httpGet"]["path"]
        assert path == ("/readyz" if name == "web" else "/livez")


def test_every_variable_is_a_setting_that_exists(objects):
    for workload in ours(objects).values():
        assert {name for name in environment_of(workload) if name.startswith("OSMO_")} <= KNOWN


SECRETS = {
    "OSMO_SECRET_KEY": "k" * 40,
    "OSMO_DATABASE_URL": "postgresql://osmo:p%40@postgres/osmo",
    "OSMO_REDIS_URL": "rediss://:p@redis:6379/0",
    "OSMO_JWT_SECRETS": json.dumps(["j" * 40]),
}


def text_of(name, value):
    """What a container has in a variable."""
    text = SECRETS.get(name, "p@ss/w:rd?" * 4) if isinstance(value, tuple) else value or ""
    return text.replace("$(POD_IP)", "10.1.2.3")


def test_every_process_starts_with_its_settings(objects, monkeypatch, tmp_path):
    """The product itself reads them: one that it refuses would show in the cluster only."""
    bundle = tmp_path / "ca.crt"
    bundle.touch()
    for name in KNOWN:
        monkeypatch.delenv(name, raising=False)
    for workload in ours(objects).values():
        with monkeypatch.context() as process:
            for name, value in environment_of(workload).items():
                text = text_of(name, value)
                process.setenv(name, str(bundle) if text.startswith("/etc/osmo-topology/ca/") else text)
            own = Environment()
        assert (own.env, own.metrics_host, own.metrics_port) == ("production", "10.1.2.3", 9100)
        assert own.database_url.hosts()[0]["host"]
        assert kombu.Connection(own.broker_url).info()["hostname"]


def test_no_secret_is_written_but_those_of_the_quickstart(objects):
    secrets = [secret["metadata"]["name"] for secret in of_kind(objects, "Secret")]
    quick = bool(of_kind(objects, "StatefulSet"))
    assert secrets == (["train-osmo-topology-quickstart"] if quick else [])


def test_every_command_of_the_product_is_there(objects):
    commands = [container_of(obj).get("command", []) for obj in of_kind(objects, *WORKLOADS, "Pod")]
    own = {command[2] for command in commands if command[:2] == ["python", "manage.py"]}
    assert {"migrate", "observe", "prepare_removal", "preflight"} <= own <= set(get_commands())


def test_the_preflight_has_the_rights_and_credentials_of_a_worker(objects):
    (pod,) = of_kind(objects, "Pod")
    worker = ours(objects)["worker"]
    assert hooks(pod) == "test"
    assert environment_of(pod) == environment_of(worker)
    for part in ("serviceAccountName", "automountServiceAccountToken", "volumes", "securityContext"):
        assert pod_of(pod)[part] == pod_of(worker)[part]
    assert container_of(pod)["volumeMounts"] == container_of(worker)["volumeMounts"]


def test_names_and_selectors_fit_together(objects):
    names = [(obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"]) for obj in objects]
    assert len(names) == len(set(names))
    for workload in of_kind(objects, "Deployment", "StatefulSet"):
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for obj in of_kind(objects, "Service", "NetworkPolicy", "PodDisruptionBudget"):
        selector = obj["spec"].get("selector") or obj["spec"]["podSelector"]
        wanted = (selector.get("matchLabels") or selector).items()
        pods = [workload["spec"]["template"] for workload in of_kind(objects, *WORKLOADS)]
        assert any(wanted <= pod["metadata"]["labels"].items() for pod in pods)


def test_a_process_that_may_run_twice_runs_twice_apart_and_leaves_one_by_one(render):
    objects = render()
    for name in ("web", "worker", "observer"):
        workload = ours(objects)[name]
        assert workload["spec"]["replicas"] == 2
        keys = {constraint["topologyKey"] for constraint in pod_of(workload)["topologySpreadConstraints"]}
        assert keys == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
        budget = named(objects, "PodDisruptionBudget", f"train-osmo-topology-{name}")
        assert budget["spec"]["maxUnavailable"] == 1
    assert ours(objects)["beat"]["spec"]["replicas"] == 1


def test_a_process_can_be_stopped_by_its_number(render):
    objects = render({"worker": {"replicas": 0}})
    assert ours(objects)["worker"]["spec"]["replicas"] == 0
    budgets = {component(budget) for budget in of_kind(objects, "PodDisruptionBudget")}
    assert budgets == {"web", "observer"}


# --- beside docker-compose.yml and the image ---------------------------------------------------


def command_in_compose(name):
    return COMPOSE[name].get("command") or IMAGE_COMMAND


def without_address(command):
    """A pod binds its own address, a container of compose every one."""
    return [re.sub(r"^\S+(:8000)$", r"*\1", part) for part in command]


@pytest.mark.parametrize("name", [*PROCESSES, "migrate"])
def test_a_process_is_run_as_in_the_compose_file(render, name):
    workload = ours(render())[name]
    assert without_address(container_of(workload)["command"]) == without_address(command_in_compose(name))


@pytest.mark.parametrize("name", [*PROCESSES, "migrate"])
def test_a_process_has_every_variable_of_the_compose_file(render, name):
    redis = {"existingSecret": "osmo-redis", "passwordKey": "password"}
    workload = ours(render({"metrics": {"existingSecret": "osmo-metrics"}, "redis": redis}))[name]
    assert set(COMPOSE[name]["environment"]) <= set(environment_of(workload))


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_has_as_long_to_end_as_in_the_compose_file(render, name):
    least = int(COMPOSE[name].get("stop_grace_period", "10s").removesuffix("s"))
    assert pod_of(ours(render())[name])["terminationGracePeriodSeconds"] >= least


def test_kept_logs_are_shared_by_those_who_write_and_who_read_them(render):
    objects = ours(render(TABLE["logs on a given volume"]))
    (directory,) = [part.split(":")[1] for part in COMPOSE["web"]["volumes"] if part.startswith("logs:")]
    for name in ("web", "worker"):
        mounts = {mount["name"]: mount["mountPath"] for mount in container_of(objects[name])["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in pod_of(objects[name])["volumes"]}
        assert mounts["logs"] == directory
        assert volumes["logs"]["persistentVolumeClaim"] == {"claimName": "osmo-logs"}


# --- addresses ---------------------------------------------------------------------------------


def environment(render, changes, name="worker"):
    return environment_of(ours(render(changes))[name])


def test_user_and_password_of_the_servers_stand_apart_from_their_addresses(render):
    own = environment(render, {"redis": {"existingSecret": "r", "userKey": "u", "passwordKey": "p"}})
    assert own["OSMO_DATABASE_URL"] == "postgresql://postgres.example.com:5432/osmo"
    assert own["OSMO_DATABASE_USER"] == ("osmo-database", "username")
    assert own["OSMO_DATABASE_PASSWORD"] == ("osmo-database", "password")
    assert own["OSMO_REDIS_URL"] == "redis://redis.example.com:6379/0"
    assert (own["OSMO_REDIS_USER"], own["OSMO_REDIS_PASSWORD"]) == (("r", "u"), ("r", "p"))


def test_tls_is_verified_by_the_given_authority(render):
    own = environment(render, TABLE["verified TLS by an authority of one's own"])
    ca = "/etc/osmo-topology/ca/ca.crt"
    assert own["OSMO_DATABASE_URL"].endswith(f"/osmo?sslmode=verify-full&sslrootcert={ca}")
    assert own["OSMO_REDIS_URL"].endswith(f":6379/0?ssl_cert_reqs=required&ssl_ca_certs={ca}")
    assert own["OSMO_REDIS_URL"].startswith("rediss://")
    assert own["SSL_CERT_FILE"] == own["AWS_CA_BUNDLE"] == own["OSMO_OIDC_CA_FILE"] == ca


@pytest.mark.parametrize(
    ("case", "through", "past"),
    [
        (
            "a pooler between",
            "postgresql://postgres.example.com:5432/osmo",
            "postgresql://postgres-direct.example.com:6432/osmo",
        ),
        ("addresses in Secrets", ("osmo-database", "address"), ("osmo-database", "direct")),
    ],
)
def test_migrations_alone_go_past_a_pooler(render, case, through, past):
    objects = ours(render(TABLE[case]))
    urls = {name: environment_of(workload)["OSMO_DATABASE_URL"] for name, workload in objects.items()}
    assert urls.pop("migrate") == past
    assert set(urls.values()) == {through}


def test_the_address_of_the_service_decides_hosts_links_and_routes(render):
    objects = render({"url": "https://osmo.example.com:8443", "ingress": {"enabled": True}})
    own = environment_of(ours(objects)["web"])
    assert own["OSMO_SERVICE_URL"] == "https://osmo.example.com:8443"
    assert json.loads(own["OSMO_CSRF_TRUSTED_ORIGINS"]) == ["https://osmo.example.com:8443"]
    assert json.loads(own["OSMO_ALLOWED_HOSTS"])[:2] == ["osmo.example.com", "train-osmo-topology-web"]
    (ingress,) = of_kind(objects, "Ingress")
    assert ingress["spec"]["rules"][0]["host"] == "osmo.example.com"


def test_settings_reach_every_process_as_they_are_read(render):
    own = environment(render, TABLE["everything"])
    assert own["OSMO_WORKFLOW_DAYS"] == "90"
    assert own["OSMO_MAX_BODY_BYTES"] == "8388608"  # and not 8.388608e+06
    assert own["OSMO_DEFAULT_ROLES"] == '["osmo-user"]'
    assert own["OSMO_OIDC_GROUP_ROLES"] == '{"gpu-admins":["osmo-admin"]}'
    assert own["OSMO_JWT_SECRETS"] == ("osmo-jwt", "list")


def test_each_process_reads_its_own_credentials_of_a_remote_cluster(render):
    objects = ours(render(TABLE["everything"]))
    for name, key in {"web": "w", "worker": "wo", "observer": "o"}.items():
        (volume,) = [
            volume for volume in pod_of(objects[name])["volumes"] if volume["name"] == "cluster-east"
        ]
        assert volume["secret"]["items"] == [{"key": key, "path": "kubeconfig"}]
        (mount,) = [
            mount for mount in container_of(objects[name])["volumeMounts"] if mount["name"] == "cluster-east"
        ]
        assert mount["mountPath"] == "/etc/osmo-topology/clusters/east"
    assert "cluster-east" not in json.dumps(objects["beat"])


def test_the_image_by_digest(render):
    for workload in ours(render(TABLE["an image by digest from a registry with a password"])).values():
        assert container_of(workload)["image"] == f"registry.example.com/osmo@sha256:{'a' * 64}"
        assert pod_of(workload)["imagePullSecrets"] == [{"name": "registry"}]


# --- order -------------------------------------------------------------------------------------


NAMES = {
    "name", "namespace", "secretName", "claimName", "storageClassName", "priorityClassName",
    "ingressClassName", "app.kubernetes.io/instance",
}  # fmt: skip


def names_in(node):
    """(field, value) of every name that an object has or refers to."""
    if isinstance(node, dict):
        yield from ((field, node[field]) for field in NAMES & node.keys())
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from names_in(inner)


@pytest.mark.parametrize("case", ["everything", "the quickstart", "logs on a volume of its own"])
def test_a_name_of_digits_stays_a_name(render, case):
    """``2024`` is a good name of a release, a namespace or a Secret, and a number in YAML."""
    digits = {
        "image": {"pullSecrets": ["10"]},
        "caBundle": {"secret": "11", "configMap": ""},
        "taskNamespaces": [{"name": "12", "create": True}, {"name": "1000"}],
        "web": {"priorityClassName": "14"},
        "ingress": {"enabled": True, "className": "15", "tlsSecret": "16"},
        "quickstart": {"storageClass": "21"},
        "metrics": {"existingSecret": "17", "key": "18", "podMonitor": {"enabled": True}},
    }
    logs = {"existingSecret": "19"} if case == "everything" else {"newClaim": {"storageClass": "20"}}
    objects = render(merged({**digits, "logs": logs}, TABLE[case]), release="2024", namespace="2025")
    wrong = [
        (obj["kind"], *name) for obj in objects for name in names_in(obj) if not isinstance(name[1], str)
    ]
    assert wrong == []


def hooks(obj):
    return obj["metadata"].get("annotations", {}).get("helm.sh/hook", "")


def test_the_schema_is_there_before_the_processes_are_and_a_rollback_leaves_it(render):
    objects = render(TABLE["everything"])
    assert hooks(named(objects, "Job", "train-osmo-topology-migrate")) == "pre-install,pre-upgrade"
    assert hooks(named(objects, "Job", "train-osmo-topology-administrator")) == "post-install,post-upgrade"
    assert "rollback" not in json.dumps(objects)


def test_a_hook_needs_nothing_of_the_release_but_other_hooks(render):
    objects = render(TABLE["the least"])
    (account,) = [account for account in of_kind(objects, "ServiceAccount") if hooks(account)]
    for job in of_kind(objects, "Job"):
        assert pod_of(job)["serviceAccountName"] == account["metadata"]["name"]
        assert set(hooks(job).split(",")) <= set(hooks(account).split(","))
        assert "hook-succeeded" in job["metadata"]["annotations"]["helm.sh/hook-delete-policy"]


def test_the_log_of_a_job_that_failed_stays(objects):
    for job in of_kind(objects, "Job"):
        assert pod_of(job)["restartPolicy"] == "Never"
        assert "hook-failed" not in str(job["metadata"].get("annotations"))


def test_every_job_ends_at_a_refusal_and_is_tried_again_after_anything_else(objects):
    for job in of_kind(objects, "Job"):
        (rule,) = job["spec"]["podFailurePolicy"]["rules"]
        want = {"containerName": container_of(job)["name"], "operator": "In", "values": [REFUSED]}
        assert rule == {"action": "FailJob", "onExitCodes": want}


def test_the_quickstart_migrates_once_its_database_is_there(render):
    """Its servers are objects of the release, which a hook before it would wait for in vain."""
    objects = render(TABLE["the quickstart"])
    names = {job["metadata"]["name"]: hooks(job) for job in of_kind(objects, "Job")}
    assert names == {
        "train-osmo-topology-migrate-1": "",
        "train-osmo-topology-administrator-1": "",
        "train-osmo-topology-removal": "pre-delete",
    }


def test_an_uninstallation_is_refused_while_there_is_work_unless_cleaning_is_wanted(render):
    def command(changes):
        return container_of(ours(render(changes))["removal"])["command"]

    assert command({}) == ["python", "manage.py", "prepare_removal"]
    wanted = ["python", "manage.py", "prepare_removal", "--clean", "--seconds", "600"]
    assert command({"cleanup": {"enabled": True, "seconds": 600}}) == wanted


def test_an_object_that_holds_work_or_logs_outlives_the_release(render):
    kept = [
        obj["kind"]
        for obj in render(TABLE["logs on a volume of its own"])
        if obj["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == "keep"
    ]
    assert sorted(kept) == ["Namespace", "PersistentVolumeClaim"]


def test_addresses_of_ipv6_are_those_that_processes_connect_to(render):
    objects = ours(render(TABLE["servers by addresses of IPv6"]))
    address = {name: environment_of(workload)["OSMO_DATABASE_URL"] for name, workload in objects.items()}
    assert settings._database(address["worker"])["HOST"] == "fd00::10"
    assert settings._database(address["migrate"])["HOST"] == "fd00::11"
    broker = environment_of(objects["worker"])["OSMO_REDIS_URL"]
    assert kombu.Connection(broker).info()["hostname"] == "fd00::12"


def test_a_cluster_may_choose_the_users_of_all_pods(render):
    """OpenShift gives each namespace users of its own, and refuses others."""
    quick = merged(TABLE["the quickstart"], {"runAsUser": None})
    for workload in of_kind(render(quick), *WORKLOADS):
        context = pod_of(workload)["securityContext"]
        assert context == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_only_the_quickstart_opens_the_address_that_a_port_forward_reaches(render):
    def command(case):
        return container_of(ours(render(TABLE[case]))["web"])["command"]

    assert command("the quickstart") == [*command("the least"), "--bind", "127.0.0.1:8000"]


def test_the_quickstart_says_that_it_is_not_for_production():
    values = (CHECKOUT / "deploy/helm/osmo-topology/values.yaml").read_text()
    notes = (CHECKOUT / "deploy/helm/osmo-topology/templates/NOTES.txt").read_text()
    assert "NOT FOR PRODUCTION" in values
    assert "NOT FOR PRODUCTION" in notes


# --- monitoring --------------------------------------------------------------------------------


def test_every_alert_leads_to_its_section_of_the_runbook(render):
    (rules,) = of_kind(render(TABLE["everything"]), "PrometheusRule")
    source = yaml.safe_load((CHECKOUT / "deploy/prometheus/alerts.yaml").read_text())
    runbook = (CHECKOUT / "docs/how-to/runbook.md").read_text().lower()
    for own, alert in zip(rules["spec"]["groups"][0]["rules"], source["groups"][0]["rules"], strict=True):
        page, anchor = own["annotations"].pop("runbook_url").split("#")
        assert own == alert
        assert page == "https://docs.example.com/how-to/runbook.html"
        assert f"## {anchor}\n" in runbook


def test_the_dashboard_is_that_of_the_repository(render):
    own = named(render(TABLE["everything"]), "ConfigMap", "train-osmo-topology-dashboard")
    source = (CHECKOUT / "deploy/grafana/osmo-topology.json").read_text()
    assert json.loads(own["data"]["osmo-topology.json"]) == json.loads(source)
    assert own["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_rules_dashboard_and_processes_name_metrics_by_one_prefix(render):
    values = TABLE["everything"]
    made = render({**values, "metrics": {**values["metrics"], "prefix": "ours_"}})
    for workload in ours(made).values():
        assert environment_of(workload)["OSMO_METRICS_PREFIX"] == "ours_"
    (rules,) = of_kind(made, "PrometheusRule")
    dashboard = named(made, "ConfigMap", "train-osmo-topology-dashboard")
    for text in (str(rules["spec"]), dashboard["data"]["osmo-topology.json"]):
        assert "ours_state_up" in text
        assert not re.findall(r"\bosmo_\w+", text)


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ({}, "registry.example.com/osmo:9"),
        ({"startBarrier": {"image": "registry.example.com/small:1"}}, "registry.example.com/small:1"),
        ({"startBarrier": {"enabled": False}}, None),
    ],
)
def test_the_start_barrier_of_tasks_has_the_services_image_unless_another_is_named(render, values, want):
    made = render({"image": {"repository": "registry.example.com/osmo", "tag": "9"}, **values})
    for workload in ours(made).values():
        assert environment_of(workload).get("OSMO_BARRIER_IMAGE") == want


def test_a_scrape_bears_the_token_on_every_port(render):
    (monitor,) = of_kind(render(TABLE["everything"]), "PodMonitor")
    endpoints = monitor["spec"]["podMetricsEndpoints"]
    assert {endpoint["port"] for endpoint in endpoints} == {"http", "metrics"}
    for endpoint in endpoints:
        assert endpoint["authorization"]["credentials"] == {"name": "osmo-metrics", "key": "token"}


def test_the_declared_configuration_is_the_file_that_is_read(render):
    objects = render(TABLE["everything"])
    own = named(objects, "ConfigMap", "train-osmo-topology-configuration")
    assert yaml.safe_load(own["data"]["config.yaml"]) == DECLARED
    assert read_config_file(own["data"]["config.yaml"]).generation == DECLARED["generation"]
    for name in PROCESSES:  # and no Job: what ends the work of a release writes configuration itself
        workload = ours(objects)[name]
        folder, _, file = environment_of(workload)["OSMO_TOPOLOGY_CONFIG_FILE"].rpartition("/")
        mounts = {mount["mountPath"] for mount in container_of(workload)["volumeMounts"]}
        assert folder in mounts
        assert file in own["data"]
