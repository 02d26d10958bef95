"""The service at the rates of many clusters, against clusters in memory instead of API servers."""
