"""The meanings of KAI's reasons' codes."""

from collections.abc import Mapping

from scheduling.backends.base import Meaning, WaitKind

MEANINGS: Mapping[str, Meaning] = {
    **dict.fromkeys(("OverQuota", "QueueMissing"), Meaning(WaitKind.QUOTA)),
    **dict.fromkeys(("TopologyMissing",), Meaning(WaitKind.DRIFT)),
    **dict.fromkeys(("TopologyNotSatisfied", "DomainTooSmall"), Meaning(WaitKind.TOPOLOGY)),
    **dict.fromkeys(("NotEnoughRoom",), Meaning(WaitKind.CAPACITY)),
    **dict.fromkeys(("ChannelInUse", "ClaimMissing"), Meaning(WaitKind.CLAIM)),
    **dict.fromkeys(("PodGroupMissing", "PodsMissing"), Meaning(WaitKind.PODS)),
    "DeviceNodes": Meaning(
        WaitKind.CAPACITY,
        "Use another pool, or a pod template with a claim template for GPUs and tasks without `gpu`; an "
        "administrator may also let a device plugin offer the GPUs.",
    ),
    **dict.fromkeys(("NodesClosed", "NoNode", "NodeSelector", "Taints"), Meaning(WaitKind.NODES)),
    **dict.fromkeys(
        (
            "BindFailed",
            "ClaimElsewhere",
            "ConfigMapMissing",
            "LargerThanAnyNode",
            "PodAffinity",
            "PortsInUse",
            "VolumeMissing",
            "VolumeNotBound",
            "WrongSubgroup",
        ),
        Meaning(WaitKind.POD),
    ),
    **dict.fromkeys(("ClaimsNotServed", "DeviceClassMissing"), Meaning(WaitKind.NOT_SERVED)),
}
