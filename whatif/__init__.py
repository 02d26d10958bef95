"""What would become of the groups that wait in a pool, were its nodes or its keys others. Reads only.

Each group is judged as if it came alone, before and after, by the same verdict as a submission. What is
frozen of a group holds for it as long as only nodes change. Keys, backend and pool are frozen too, so with
others of those a group is judged as a submission of the same tasks would be accepted then, or refused.
"""
