"""Addresses of the service that belong to no application."""
