"""The end of a group: its objects are deleted, and those that no row knows."""
