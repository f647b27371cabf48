"""What several algorithms share, each piece under its name in the literature."""
