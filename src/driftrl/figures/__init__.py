"""Records to figures and to one self-contained page; no number is typed in."""
