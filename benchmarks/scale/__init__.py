"""A hundred thousand cases, and what they say about a million: see `__main__`."""
