"""The pages of a cluster: the groups that others submitted to it and that wait."""
