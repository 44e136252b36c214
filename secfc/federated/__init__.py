"""Lloyd's heuristic over secure sums: `FederatedLloyd`, whose traffic does not grow with rows."""
