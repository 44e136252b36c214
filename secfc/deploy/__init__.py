"""Parties that open no port: each goes out to a hub, which joins two and two and forwards what they seal."""

import importlib.util

if importlib.util.find_spec("websockets") is None:
    raise ImportError(
        "a hub, and parties that go to it, need websockets: pip install 'secfc-clustering[deploy]'"
    )
