"""What a reconcile reads of its group, the lease that it works under, and what it may answer."""
