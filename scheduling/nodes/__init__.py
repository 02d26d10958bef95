"""Nodes that fail or are suspect, and their channels."""
