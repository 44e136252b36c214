"""NVIDIA FLARE as a carrier: its processes and its administration, and nothing of the protocol.

What needs FLARE itself is `secfc.deploy.flare.job`; all else runs without it.
"""
