"""Parties that open no port: each goes out to a hub, which joins two and two and forwards what they seal."""
