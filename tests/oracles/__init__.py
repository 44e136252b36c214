"""Slow and obviously right twins of what the product computes fast."""
