"""What KAI and NVIDIA's driver install in a cluster before any workload, in our own words."""
