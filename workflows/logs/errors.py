"""What can go wrong with the store of logs."""


class StoreFailed(Exception):
    """The store did not do what it was asked; the message names no credentials."""
