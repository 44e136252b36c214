"""Labels by comparisons that nobody sees, with a dealer: who deals, who compares, what the server does."""
