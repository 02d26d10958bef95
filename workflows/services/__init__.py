"""Writers of workflows: statuses, leases, notifications, stops and tags."""
