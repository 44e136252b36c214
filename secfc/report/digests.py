"""Digests of labels, as reports show them."""

from secfc.metrics import labels_digest as labels_digest
