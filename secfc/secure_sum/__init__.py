"""Secure sums of integer vectors: everybody adds one, the server learns the sum and nothing else."""
