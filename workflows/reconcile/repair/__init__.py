"""Pods of tasks that are tried again, and the start barrier that holds them."""
