"""Starts and algorithms for clients that observe different, partly shared features (Maritan and Schenato)."""
