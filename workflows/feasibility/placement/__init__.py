"""What was placed: how requirements were met, and how nodes were broken up."""
