"""News of workflows: recorded in an outbox with the changes that they are about, and sent from there."""
