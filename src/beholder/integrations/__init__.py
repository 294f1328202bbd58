"""Beholder inside other tools: thin adapters over `Session` and `Run`. Each imports its host only where it is used."""
