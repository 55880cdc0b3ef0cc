"""What the agent has seen, on disk and in memory, and what it learns from."""
