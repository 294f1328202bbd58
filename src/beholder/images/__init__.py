"""Read images safely and prepare them for a judge.

- `image`: the values that other packages use: sources, limits, sizes, the prepared image
- `source`: the bytes of an image, from wherever it is; `remote`: downloads from public addresses only
- `in_memory`: PIL images, arrays, tensors and file objects as the bytes of an image file
- `headers`: format, size, orientation and limits, before anything is decoded
- `jpeg`, `png`, `webp`: the parts of each format: read the header, strip metadata
- `codec`: decode, resize and encode; `prepare`: an image for a judge, and thumbnails

Importing this package loads no codec and no network library.
"""
