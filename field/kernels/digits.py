"""Into what digits kernels cut a number that is compared; apart, as plans need it and no kernel."""

# Bits of a digit; the public steps that a digit may exceed, each a bit of its table.
DIGIT_BITS = 3
STEPS = (1 << DIGIT_BITS) - 1
