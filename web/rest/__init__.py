"""A request as it is read, and an answer as it is written."""
