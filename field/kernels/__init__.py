"""Everything of numba: kernels, how they are compiled, and the threads they run in."""
