"""Queues and quota: their usage, their order, and the groups that wait in them."""
