"""A small suite to try Beholder on: photographs that other packages ship, restyled, edited and described by ourselves.

Some of it is good and some bad in a way that is known, so that one can see what a judge finds.
"""
