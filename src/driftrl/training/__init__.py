"""Sessions, runs and studies: from a configuration to records on a disk."""
