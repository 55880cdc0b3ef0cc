"""Optimal returns J*(θ), each with its source and error."""
