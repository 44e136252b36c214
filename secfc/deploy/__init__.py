"""Parties that open no port: each goes out to a hub, which joins two and two and forwards what they seal."""

import importlib.util

from secfc.errors import install_command

if importlib.util.find_spec("websockets") is None:
    raise ImportError(f"a hub, and parties that go to it, need websockets: {install_command('[deploy]')}")
