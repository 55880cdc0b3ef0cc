"""How to act: planning, and the paper's loop over a model and a planner."""
