"""The command line: one small file per command, nothing but parsing and printing."""
