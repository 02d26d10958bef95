"""Pages of the admin that tell of workflows; nothing here is the form of a row."""
