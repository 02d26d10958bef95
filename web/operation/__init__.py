"""Health, metrics, logs and periodic work of the processes."""
