"""The command line: the composition root, one file per command."""
