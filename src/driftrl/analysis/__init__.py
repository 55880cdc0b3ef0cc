"""Results as a library: recorded runs as a frame, and what can be computed from it."""
