"""Instruments: functions that measure one thing on an image, a pair of images or a text. No model, no network.

    model          Measurement, Instrument
    pair           Pair, Picture: what is measured, and all that several instruments share, computed once
    registry       the families, ours and plugged in; measure_pair, measure_image
    alignment, registration   how one image lies over the other;  places, regions   where a change is

Importing this package loads nothing; its modules load NumPy and OpenCV.
"""
