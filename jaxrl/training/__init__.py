"""Where algorithms meet environments."""
