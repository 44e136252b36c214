"""Residues modulo a few primes, integers below 2**128, and the way from floats to them and to noise."""
