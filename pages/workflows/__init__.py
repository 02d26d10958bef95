"""The pages of workflows: the list, and the page of one workflow."""
