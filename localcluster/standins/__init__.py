"""Stand-ins for programs that cannot be had on a plain machine.

``kai`` plays KAI's scheduler and binder, frozen to what was seen; ``computedomain`` plays NVIDIA's
ComputeDomain controller. Both read and write nothing but the API server, and import nothing of the product,
so a test that passes against them passes because of the objects in the cluster. They are as strict as the
originals, known faults included: a stand-in that forgives would hide our faults until the first real cluster.
"""
