"""Lloyd's heuristic: one loop for the oracle and the protocols, and where it starts."""
