"""Everything of numba: kernels, how they are compiled, and the threads they run in."""

# Primes of lanes are 2**LANE_BITS less a little.
LANE_BITS = 30
# Into what digits kernels cut a number that is compared: bits of one, and the public steps that it may
# exceed, each a bit of its table.  Here, as plans need it and no kernel.
DIGIT_BITS = 3
STEPS = (1 << DIGIT_BITS) - 1
