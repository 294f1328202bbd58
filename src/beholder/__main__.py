"""`python -m beholder`."""

from beholder.cli import main

main()
