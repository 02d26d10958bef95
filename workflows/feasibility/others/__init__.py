"""Verdicts on gangs that others submitted."""
