"""A gang as a tree of sets, its checks, and the forms in which it may be placed."""
