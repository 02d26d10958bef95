"""Queues of schedulers: bounds, usage, and queues of others that a pool joins."""
