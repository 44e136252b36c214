"""The comparison policy without a dealer: committees that make correlated randomness together."""
