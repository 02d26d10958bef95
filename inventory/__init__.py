"""What a release is made of: packages with their licences, and images."""
