"""The list of pools, and the page of a pool: its keys, its room, and a workflow to copy."""
