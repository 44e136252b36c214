"""Attacks that judge the protocols: each file is one, takes a `View` and nothing else, returns a guess.

What an attacker could know of the truth never enters a guess; it enters only where a guess is judged.
"""
