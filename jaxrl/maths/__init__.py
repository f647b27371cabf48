"""Mathematics that several algorithms share, named as in the literature."""
