"""Past episodes, in memory and on disk, and the rules that forget them."""
