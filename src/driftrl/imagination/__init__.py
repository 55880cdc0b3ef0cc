"""The learned model stepped like an environment, and what uncertainty is worth."""
