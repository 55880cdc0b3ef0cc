"""A machine on the other side of a wire: real time, safety, and a small protocol."""
