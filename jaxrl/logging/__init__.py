"""One row an epoch, and where it is written."""
