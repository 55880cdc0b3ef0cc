"""What a run is, as frozen dataclasses, and as TOML."""
