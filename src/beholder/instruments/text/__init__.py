"""Measurements of texts about an image."""
