"""Clipping on the integers, which quantizers do as well: see `field.clipping`."""

from field.clipping import clip as clip
from field.clipping import squared_norms as squared_norms
