"""Wrong values are refused with their name, and the chart is one that helm finds no fault with."""

import json

import pytest

from tests.chart.values import CHART, DEFAULTS, LEAST, TABLE, merged

SHAPES = {
    "an unknown value": ({"wbe": {"replicas": 3}}, "wbe"),
    "an unknown value of a process": ({"worker": {"treads": 8}}, "treads"),
    "a word for a number": ({"web": {"replicas": "two"}}, "/web/replicas"),
    "no thread": ({"worker": {"threads": 0}}, "/worker/threads"),
    "a port that is none": ({"database": {"port": 70000}}, "/database/port"),
    "an address in place of a host": ({"redis": {"host": "redis://redis:6379"}}, "/redis/host"),
    "a database's TLS that libpq does not know": ({"database": {"sslMode": "verify"}}, "/database/sslMode"),
    "a start barrier's image with a blank": ({"startBarrier": {"image": "a b"}}, "/startBarrier/image"),
    "an object that is a text": ({"extraObjects": ["kind: ConfigMap"]}, "/extraObjects/0"),
    "a password that is guessed": ({"quickstart": {"password": "osmo"}}, "/quickstart/password"),
    "a digest that is cut": ({"image": {"digest": "sha256:abc"}}, "/image/digest"),
    "a url with a path": ({"url": "https://example.com/osmo"}, "/url"),
    "a url with a port that is none": ({"url": "https://osmo.example.com:99999"}, "/url"),
    "an endpoint with a port that is none": (
        {"logs": {"endpoint": "https://minio.example.com:99999"}},
        "/logs/endpoint",
    ),
    "a host with a port": ({"database": {"host": "postgres.example.com:5432"}}, "/database/host"),
    "a url without a scheme": ({"url": "osmo.example.com"}, "/url"),
    "a Secret's name that is none": (
        {"secretKey": {"existingSecret": "My Secret"}},
        "/secretKey/existingSecret",
    ),
    "a store of another kind": ({"logs": {"store": "gs://bucket"}}, "/logs/store"),
    "a namespace where the preflight does not look for KAI": (
        {"rights": {"kaiNamespace": "kai"}},
        "/rights/kaiNamespace",
    ),
    "a namespace where it does not look for Kueue": (
        {"rights": {"kueueNamespace": "kueue"}},
        "/rights/kueueNamespace",
    ),
    "no namespace for tasks": ({"taskNamespaces": []}, "/taskNamespaces"),
    "a namespace's name that is none": ({"taskNamespaces": [{"name": "Osmo"}]}, "/taskNamespaces/0/name"),
    "a cluster without a Secret": ({"remoteClusters": [{"name": "east"}]}, "/remoteClusters/0"),
    "a setting by another name": ({"settings": {"WORKFLOW_DAYS": 9}}, "WORKFLOW_DAYS"),
    "a section of configuration that is none": (
        {"configuration": {"content": {"pool": {}}}},
        "/configuration/content",
    ),
    "a label that is a number": ({"commonLabels": {"tier": 1}}, "/commonLabels/tier"),
    "a label that selects the pods": (
        {"commonLabels": {"app.kubernetes.io/name": "osmo"}},
        "app.kubernetes.io/name",
    ),
    "a label that selects a process": (
        {"web": {"podLabels": {"app.kubernetes.io/component": "api"}}},
        "app.kubernetes.io/component",
    ),
    "a label with a blank": ({"commonLabels": {"team": "the team"}}, "/commonLabels/team"),
    "no key of a Secret": ({"secretKey": {"key": ""}}, "/secretKey/key"),
    "no key of a cluster's Secret": (
        {
            "remoteClusters": [
                {"name": "east", "existingSecret": "e", "keys": {"web": "", "worker": "w", "observer": "o"}}
            ]
        },
        "/remoteClusters/0/keys/web",
    ),
    "no name of a Secret of the registry": ({"image": {"pullSecrets": [""]}}, "/image/pullSecrets/0"),
    "a host that no Ingress may have": ({"url": "https://OSMO.example.com"}, "/url"),
    "an administrator that the Job would refuse": (
        {"administrator": {"username": "the admin"}},
        "/administrator/username",
    ),
    "an address in place of a further host": ({"extraHosts": ["https://osmo"]}, "/extraHosts/0"),
    "a size of nothing": ({"quickstart": {"storage": "..."}}, "/quickstart/storage"),
    "an amount without a number": (
        {"web": {"resources": {"limits": {"memory": "lots"}}}},
        "/web/resources/limits/memory",
    ),
    "an amount with another unit": (
        {"worker": {"resources": {"requests": {"cpu": "2 cores"}}}},
        "/worker/resources/requests/cpu",
    ),
    "less than nothing": (
        {"beat": {"resources": {"requests": {"cpu": -1}}}},
        "/beat/resources/requests/cpu",
    ),
    "thousandths of a byte": (
        {"observer": {"resources": {"limits": {"memory": "512m"}}}},
        "/observer/resources/limits/memory",
    ),
    "a resource that is none": (
        {"jobs": {"resources": {"limits": {"memroy": "1Gi"}}}},
        "memroy",
    ),
    "web that ends before its requests": ({"web": {"graceSeconds": 0}}, "/web/graceSeconds"),
    "a worker that is killed at once": ({"worker": {"graceSeconds": 0}}, "/worker/graceSeconds"),
    "a variable's value that is a number": (
        {"web": {"extraEnv": [{"name": "HTTP_TIMEOUT", "value": 9}]}},
        "/web/extraEnv/0/value",
    ),
    "a variable with something else": (
        {"web": {"extraEnv": [{"name": "HTTPS_PROXY", "vlaue": "http://proxy"}]}},
        "/web/extraEnv/0",
    ),
    "a mount without a path": (
        {"web": {"extraVolumeMounts": [{"name": "more"}]}},
        "/web/extraVolumeMounts/0",
    ),
    "a volume without a name": ({"web": {"extraVolumes": [{"emptyDir": {}}]}}, "/web/extraVolumes/0"),
    "the user who may do everything": ({"runAsUser": 0}, "/runAsUser"),
    "a scrape without a unit": (
        {"metrics": {"podMonitor": {"interval": "30"}}},
        "/metrics/podMonitor/interval",
    ),
}

SENTENCES = {
    "no address": ({"url": ""}, "url: set the address"),
    "no key": (
        {"secretKey": {"existingSecret": ""}},
        "secretKey.existingSecret: name a Secret with secret-key",
    ),
    "no user of the database": (
        {"database": {"existingSecret": ""}},
        "database.existingSecret: name a Secret with username, password",
    ),
    "no Redis": ({"redis": {"host": ""}}, "redis.existingSecret: name a Secret with url"),
    "logs nowhere": ({"logs": {"store": ""}}, "logs: set exactly one of"),
    "logs in two places": ({"logs": {"existingClaim": "logs"}}, "logs: set exactly one of"),
    "an endpoint without a bucket": (
        {"logs": {"store": "", "ephemeral": True, "endpoint": "https://s3"}},
        "logs.endpoint",
    ),
    "credentials of no bucket": (
        {"logs": {"store": "", "ephemeral": True, "existingSecret": "osmo-s3"}},
        "logs.existingSecret: is for a bucket",
    ),
    "TLS that no address of PostgreSQL gets": (
        {"database": {"host": "", "sslMode": "verify-full"}},
        "database.sslMode: without database.host",
    ),
    "a host past a pooler that has none": (
        {"database": {"host": "", "direct": {"host": "postgres.example.com"}}},
        "database.direct.host: without database.host",
    ),
    "an address past a host": (
        {"database": {"direct": {"urlKey": "direct"}}},
        "database.direct.urlKey: with database.host",
    ),
    "TLS that no address of Redis gets": (
        {"redis": {"host": "", "existingSecret": "osmo-redis", "tls": True}},
        "redis.tls: without redis.host",
    ),
    "a Secret of Redis of which nothing is read": (
        {"redis": {"existingSecret": "osmo-redis"}},
        "redis.existingSecret: with redis.host, set redis.passwordKey",
    ),
    "a configuration from two places": (
        {"configuration": {"enabled": True, "content": {"pools": {}}, "existingConfigMap": "osmo"}},
        "configuration: set content or existingConfigMap, not both",
    ),
    "two bundles": ({"caBundle": {"configMap": "a", "secret": "b"}}, "caBundle: set configMap or secret"),
    "fewer replicas at most than at least": (
        {"web": {"autoscaling": {"enabled": True, "minReplicas": 9}}},
        "web.autoscaling: minReplicas is more than maxReplicas",
    ),
    "a load of nothing": (
        {"web": {"autoscaling": {"enabled": True}, "resources": {"requests": {"cpu": None}}}},
        "web.autoscaling: is by the CPU that web requests",
    ),
    "declared and empty": ({"configuration": {"enabled": True}}, "configuration.enabled: needs content"),
    "a route to no gateway": ({"httpRoute": {"enabled": True}}, "httpRoute.parentRefs: name the Gateway"),
    "a scrape that web would refuse": (
        {"metrics": {"podMonitor": {"enabled": True}}},
        "metrics.existingSecret: web shows its metrics with a token only",
    ),
    "a setting that does not exist": (
        {"settings": {"OSMO_WORKFLOW_DAY": 9}},
        "settings: OSMO_WORKFLOW_DAY is no setting",
    ),
    "a setting that another value makes": (
        {"settings": {"OSMO_SERVICE_URL": "https://x"}},
        "settings: OSMO_SERVICE_URL follows from another value",
    ),
    "tasks beside the service's own Secrets": (
        {"taskNamespaces": [{"name": "osmo"}, {"name": "default"}]},
        "taskNamespaces: default is the namespace of the service itself",
    ),
    "tasks in one namespace twice": (
        {"taskNamespaces": [{"name": "tasks", "create": True}, {"name": "tasks"}]},
        "taskNamespaces: each name once",
    ),
    "two clusters of one name": (
        {
            "remoteClusters": [
                {
                    "name": "east",
                    "existingSecret": secret,
                    "keys": {"web": "w", "worker": "w", "observer": "o"},
                }
                for secret in ("east", "west")
            ]
        },
        "remoteClusters: each name once",
    ),
    "a secret setting that does not exist": (
        {"secretSettings": [{"name": "OSMO_JWT_SECRET", "existingSecret": "jwt", "key": "list"}]},
        "settings: OSMO_JWT_SECRET is no setting",
    ),
    "a setting from two places": (
        {
            "settings": {"OSMO_JWT_SECRETS": "[]"},
            "secretSettings": [{"name": "OSMO_JWT_SECRETS", "existingSecret": "jwt", "key": "list"}],
        },
        "settings, secretSettings: each setting once",
    ),
    "a variable that the chart sets": (
        {"worker": {"extraEnv": [{"name": "OSMO_REDIS_URL", "value": "redis://x"}]}},
        "worker.extraEnv: OSMO_REDIS_URL is set already",
    ),
    "the address that a process listens at": (
        {"web": {"extraEnv": [{"name": "POD_IP", "value": "127.0.0.1"}]}},
        "web.extraEnv: POD_IP is set already",
    ),
    "the configuration's file, though none is declared": (
        {"observer": {"extraEnv": [{"name": "OSMO_TOPOLOGY_CONFIG_FILE", "value": "/x"}]}},
        "observer.extraEnv: OSMO_TOPOLOGY_CONFIG_FILE is set already",
    ),
    "a variable that is a setting too": (
        {
            "settings": {"OSMO_WORKFLOW_DAYS": 9},
            "jobs": {"extraEnv": [{"name": "OSMO_WORKFLOW_DAYS", "value": "10"}]},
        },
        "jobs.extraEnv: OSMO_WORKFLOW_DAYS is set already",
    ),
    "a variable twice": (
        {"beat": {"extraEnv": [{"name": "TZ", "value": "UTC"}, {"name": "TZ", "value": "CET"}]}},
        "beat.extraEnv: TZ is set already",
    ),
    "a volume of the chart's own": (
        {"worker": {"extraVolumes": [{"name": "tmp", "emptyDir": {}}]}},
        "worker.extraVolumes: there is a volume tmp already",
    ),
    "a mount of no volume": (
        {"jobs": {"extraVolumeMounts": [{"name": "more", "mountPath": "/more"}]}},
        "jobs.extraVolumeMounts: there is no volume more in extraVolumes",
    ),
    "a mount over the chart's own": (
        {
            "web": {
                "extraVolumes": [{"name": "more", "emptyDir": {}}],
                "extraVolumeMounts": [{"name": "more", "mountPath": "/tmp/"}],
            }
        },
        "web.extraVolumeMounts: something is mounted at /tmp/ already",
    ),
    "a policy beside rights that the chart does not make": (
        {"rights": {"create": False, "ownObjectsOnly": True}},
        "rights.ownObjectsOnly: comes with the rights of the chart",
    ),
    "a quickstart beside one's own database": (
        {"quickstart": {"enabled": True}, "logs": {"store": ""}},
        "quickstart.enabled: brings its own PostgreSQL and Redis",
    ),
}


@pytest.mark.parametrize("case", SHAPES)
def test_the_schema_refuses_a_wrong_value_with_its_name(helm, case):
    changes, name = SHAPES[case]
    message = helm.refusal(merged(changes))
    assert "don't meet the specifications of the schema" in message
    # a path is written with slashes or with dots, as the version of helm likes
    assert name in message or name.strip("/").replace("/", ".") in message


@pytest.mark.parametrize("case", SENTENCES)
def test_values_that_need_each_other_are_refused_with_a_sentence(helm, case):
    changes, sentence = SENTENCES[case]
    assert sentence in helm.refusal(merged(changes))


@pytest.mark.parametrize("case", TABLE)
def test_helm_finds_no_fault_with_the_chart(helm, case):
    answer = helm.run("lint", "--strict", str(CHART), values=merged(TABLE[case]))
    assert answer.returncode == 0, answer.stdout


def test_every_default_stands_in_the_schema_and_each_property_has_one():
    """Only what a process may be given beside its defaults has none."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    optional = {
        "nodeSelector", "tolerations", "affinity", "priorityClassName", "podLabels", "podAnnotations",
        "extraEnv", "extraVolumes", "extraVolumeMounts", "serviceAccountAnnotations", "global",
    }  # fmt: skip

    def compare(node, defaults, path):
        known = node.get("properties")
        if known is None or not isinstance(defaults, dict):
            return
        assert node["additionalProperties"] is False, path
        assert set(known) - optional == set(defaults) or path == "/configuration/content", path
        for name, value in defaults.items():
            compare(known[name], value, f"{path}/{name}")

    compare(schema, DEFAULTS, "")


def test_a_cluster_that_is_too_old_is_refused_with_a_sentence(helm):
    answer = helm.run("template", "train", str(CHART), "--kube-version", "1.28.0", values=LEAST)
    assert answer.returncode != 0
    assert "requires kubeVersion" in answer.stderr
