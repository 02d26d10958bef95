"""The objects of a group in the cluster: planned, created, and given their room."""
