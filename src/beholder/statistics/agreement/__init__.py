"""A judge beside people: how it ranks, how far off it is, how far people agree with each other."""
