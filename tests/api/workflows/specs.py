"""Workflows to submit, as text."""

import yaml


def text(workflow):
    return yaml.safe_dump({"version": 2, "workflow": workflow}, sort_keys=False, allow_unicode=True)


def task(name, **fields):
    return {"name": name, "image": "example.com/train:1", "command": ["train"], **fields}


def gang(count=4, *, name="train", topology=(), gpu=8, **fields):
    """One group of equal tasks, the first the lead."""
    tasks = [task(f"worker-{i}", lead=i == 0, resource="shard") for i in range(count)]
    return {
        "name": name,
        "resources": {"shard": {"gpu": gpu, "cpu": 4, "memory": "16Gi", "topology": list(topology)}},
        "groups": [{"name": "workers", "tasks": tasks}],
        **fields,
    }


def alone(**fields):
    return {"name": "train", "tasks": [task("only", **fields)]}
