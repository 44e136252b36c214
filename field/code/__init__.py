"""Lagrange codes: shares, what is computed and decoded on them, and what shows that they were dealt well."""
