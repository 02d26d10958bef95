"""Values of installations: the least that is needed, and a table of what administrators choose."""

import yaml

from localcluster.directories import CHECKOUT

CHART = CHECKOUT / "deploy" / "helm" / "osmo-topology"
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())

LEAST = {
    "url": "https://osmo.example.com",
    "secretKey": {"existingSecret": "osmo-key"},
    "database": {"existingSecret": "osmo-database", "host": "postgres.example.com"},
    "redis": {"host": "redis.example.com"},
    "logs": {"store": "s3://logs/osmo"},
}

DECLARED = {"generation": 1795000000, "pools": {"train": {"backend": "default"}}}
"""A declared configuration; its number is a time in seconds, as a pipeline may number texts."""

TABLE = {
    "the least": {},
    "addresses in Secrets": {
        "database": {"host": "", "urlKey": "address", "direct": {"urlKey": "direct"}},
        "redis": {"host": "", "existingSecret": "osmo-redis"},
    },
    "verified TLS by an authority of one's own": {
        "database": {"sslMode": "verify-full"},
        "redis": {"tls": True, "existingSecret": "osmo-redis", "userKey": "user", "passwordKey": "password"},
        "caBundle": {"configMap": "company-ca"},
    },
    "a pooler between": {"database": {"direct": {"host": "postgres-direct.example.com", "port": 6432}}},
    "servers by addresses of IPv6": {
        "database": {"host": "fd00::10", "sslMode": "require", "direct": {"host": "fd00::11"}},
        "redis": {"host": "fd00::12", "existingSecret": "osmo-redis", "passwordKey": "password"},
    },
    "users that the cluster chooses": {"runAsUser": None},
    "the quickstart": {
        "quickstart": {"enabled": True, "storageClass": "fast"},
        "database": {"existingSecret": "", "host": ""},
        "redis": {"host": ""},
        "secretKey": {"existingSecret": ""},
        "logs": {"store": ""},
    },
    "the quickstart that no helm installs": {
        "quickstart": {"enabled": True, "password": "passwords follow from it"},
        "database": {"existingSecret": "", "host": ""},
        "redis": {"host": ""},
        "secretKey": {"existingSecret": ""},
        "logs": {"store": ""},
    },
    "logs on a volume of its own": {
        "logs": {"store": "", "newClaim": {"enabled": True, "storageClass": "nfs"}}
    },
    "logs on a given volume": {"logs": {"store": "", "existingClaim": "osmo-logs"}},
    "an image by digest from a registry with a password": {
        "image": {
            "repository": "registry.example.com/osmo",
            "digest": f"sha256:{'a' * 64}",
            "pullSecrets": ["registry"],
        }
    },
    "one of each": {"web": {"replicas": 1}, "worker": {"replicas": 1}, "observer": {"replicas": 1}},
    "rights made by somebody else": {"rights": {"create": False}, "networkPolicy": {"enabled": False}},
    "web that follows its load": {"web": {"autoscaling": {"enabled": True, "maxReplicas": 4}}},
    "no look at other tenants' pods": {"rights": {"otherPods": False}},
    "everything": {
        "administrator": {"existingSecret": "osmo-administrator"},
        "caBundle": {"secret": "company-ca", "key": "bundle.pem"},
        "logs": {"endpoint": "https://minio.example.com", "existingSecret": "osmo-s3"},
        "remoteClusters": [
            {"name": "east", "existingSecret": "east", "keys": {"web": "w", "worker": "wo", "observer": "o"}}
        ],
        "configuration": {"enabled": True, "content": DECLARED},
        "settings": {
            "OSMO_WORKFLOW_DAYS": 90,
            "OSMO_MAX_BODY_BYTES": 8388608,
            "OSMO_DEFAULT_ROLES": ["osmo-user"],
            "OSMO_OIDC_ISSUER": "https://login.example.com",
            "OSMO_OIDC_GROUP_ROLES": {"gpu-admins": ["osmo-admin"]},
        },
        "secretSettings": [{"name": "OSMO_JWT_SECRETS", "existingSecret": "osmo-jwt", "key": "list"}],
        "commonLabels": {"team": "infrastructure"},
        "extraHosts": ["osmo.internal"],
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "annotations": {"nginx.ingress.kubernetes.io/proxy-body-size": "8m"},
            "tlsSecret": "osmo-tls",
        },
        "httpRoute": {"enabled": True, "parentRefs": [{"name": "gateway", "namespace": "gateways"}]},
        "networkPolicy": {
            "webFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
            "metricsFrom": [
                {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
            ],
            "extraEgress": [{"ports": [{"port": 9000}]}],
        },
        "metrics": {
            "existingSecret": "osmo-metrics",
            "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "rules": {"enabled": True, "runbookUrl": "https://docs.example.com/how-to/runbook.html"},
            "dashboard": {"enabled": True, "annotations": {"folder": "osmo"}},
        },
        "cleanup": {"enabled": True, "seconds": 600},
        "extraObjects": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "{{ .Release.Name }}-notes", "namespace": "{{ .Release.Namespace }}"},
                "data": {"address": "{{ .Values.url }}"},
            }
        ],
        **{
            component: {
                "nodeSelector": {"kubernetes.io/arch": "amd64"},
                "tolerations": [{"key": "infrastructure", "operator": "Exists"}],
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}
                            ]
                        }
                    }
                },
                "podLabels": {"cost-centre": "a1"},
                "podAnnotations": {"example.com/note": "yes"},
                "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
                "extraVolumes": [{"name": "more", "emptyDir": {}}],
                "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
            }
            for component in ("web", "worker", "beat", "observer", "jobs")
        },
    },
}


def merged(changes, base=LEAST):
    """``base`` with ``changes`` over it, maps merged as helm does."""
    result = dict(base)
    for name, value in changes.items():
        both = isinstance(value, dict) and isinstance(result.get(name), dict)
        result[name] = merged(value, result[name]) if both else value
    return result
