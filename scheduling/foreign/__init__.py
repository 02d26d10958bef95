"""Gangs that others submitted: read, never touched. Pure."""
