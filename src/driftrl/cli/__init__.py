"""The command line: parse, configure, call; no logic of its own."""
