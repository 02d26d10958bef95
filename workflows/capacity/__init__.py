"""What pools have and what is in use: quota and resources as OSMO's clients read them.

Answered from rows alone: nodes as last observed, tasks with the node they stand on. Pods that are not ours
are not observed, so what they use is not counted.
"""
