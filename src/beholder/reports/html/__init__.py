"""A run as one HTML file that opens from disk: see `page.write_report`."""

MAX_MB = 25.0  # how large it may be, unless one says otherwise; a MB is a million bytes
