"""What one user may ask for in a time."""
