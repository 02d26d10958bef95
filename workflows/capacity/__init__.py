"""What pools have and what is in use: quota and resources as OSMO's clients read them.

Answered from rows alone: nodes as last observed, tasks with the node they stand on, and what pods of others
hold there, which counts as nothing where they cannot be followed.
"""
