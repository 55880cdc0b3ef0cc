"""The paper's quantities as functions, in NumPy alone."""
