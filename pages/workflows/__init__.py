"""The pages of workflows: those there are, and one with all that is known of it."""
