"""Checks that notice what clients that deviate send, before anything of it is opened."""
