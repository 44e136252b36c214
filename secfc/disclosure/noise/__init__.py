"""Distances under differential privacy: noise at the server, or in the shares."""
