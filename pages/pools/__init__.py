"""The list of pools, and what a user wants to know of one: its keys, its room, how to write for it."""
