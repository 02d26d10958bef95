"""Statuses of tasks, groups and workflows, and how they follow from pods, exit codes and time. Pure."""
