"""The requests that one user may send in a time."""
