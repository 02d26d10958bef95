"""The verdict on a task group, and its sentences."""
