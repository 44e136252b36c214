"""Comparisons of secret integers, with a dealer and without."""
