"""What a test sees of gangs that a scheduler leaves waiting: condition ``SchedulerDisagrees``."""


def condition_of(world, name):
    found = world.groups(name)["g"]["conditions"]
    return next((entry for entry in found if entry["type"] == "SchedulerDisagrees"), {"status": None})


def status_of(world, backend):
    found = {entry["type"]: entry["status"] for entry in world.service.get(backend)["conditions"]}
    return found.get("SchedulerDisagrees")
