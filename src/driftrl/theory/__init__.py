"""The paper's quantities as functions, and their estimates from a run's data."""
