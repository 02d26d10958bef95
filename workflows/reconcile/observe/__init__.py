"""What the observer wrote about a group, as conditions and facts of its row."""
