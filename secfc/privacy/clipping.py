"""Clipping on the integers, which quantizers do as well: see `field.ring.clipping`."""

from field.ring.clipping import clip as clip
from field.ring.clipping import squared_norms as squared_norms
