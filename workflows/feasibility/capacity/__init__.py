"""What is known of nodes and of what runs on them."""
