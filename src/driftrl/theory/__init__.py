"""The paper's quantities as functions."""
