"""Keys, levels and requirements: what a pool offers and what its users ask for."""
