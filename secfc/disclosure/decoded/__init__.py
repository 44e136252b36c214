"""Policies under which the server decodes distances: exact ones, as shares on polynomials."""
