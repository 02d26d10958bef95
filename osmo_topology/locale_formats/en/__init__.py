"""In English, the only language."""
