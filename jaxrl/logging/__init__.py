"""One row per epoch, and where it is written."""
