"""Providers of models: how each one is asked over HTTP, how its replies are read, and what its calls cost."""
