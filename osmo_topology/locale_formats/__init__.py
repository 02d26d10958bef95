"""How Django writes values for people."""
