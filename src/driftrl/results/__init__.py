"""What runs leave on the disk, read back, and what a few seeds say about a mean."""
