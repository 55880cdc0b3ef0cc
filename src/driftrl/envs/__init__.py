"""The systems that drift, and the registry of tasks and methods."""
