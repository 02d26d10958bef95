"""What became of the tasks of a group, and what follows from it."""
