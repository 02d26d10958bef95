"""Frozen values that rows keep as JSON or that cluster objects are reduced to. Pure."""
