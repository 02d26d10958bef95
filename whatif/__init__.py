"""What would happen to the groups that wait in a pool if its nodes or keys were different. Reads only.

Each group is judged as if it came alone, before and after the edits, by the same verdict as a submission.
While only nodes change, everything frozen in a group holds. Keys, backend and pool are frozen too: with other
ones, a group is judged as a new submission of the same tasks, which is accepted or refused.
"""
