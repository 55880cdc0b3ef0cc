"""How the drifting parameter θ changes with time, and how much it changes."""
