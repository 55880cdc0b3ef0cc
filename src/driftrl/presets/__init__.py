"""The tasks and methods of the paper, as data."""
