"""Instruments: functions that measure one thing on an image, a pair or a text, without a model or a network.

- `instrument`: Measurement and Instrument, the contract of a plug-in; `registry`: all families, built in and plugged in
- `pair`: ImagePair and SingleImage, what is measured, with everything that several instruments share
- `registration`: how one image lies over the other; `pixel_metrics`: CIEDE2000 and SSIM at each pixel; `regions`: which
  pixels changed, and where they are
- `geometry`, `color`, `structure`, `locality`, `quality`, `naturalness`, `restyle`: a family of instruments each
- `text/`: the family `description`, which compares texts
- `human_ratings`: predictions of people's ratings from measurements; `heatmap`: measurements drawn over an image

Importing this package loads nothing; its modules load NumPy and OpenCV.
"""
