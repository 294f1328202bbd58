"""Cases: what is judged, and the files and patterns that they are read from."""
