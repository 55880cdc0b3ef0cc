"""Models of the dynamics, which say what they expect and how sure they are."""
