"""Distances under differential privacy: noise in the shares."""
