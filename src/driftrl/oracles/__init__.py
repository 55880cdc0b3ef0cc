"""Optimal returns J*(θ), each with how it was found and how far off it may be."""
