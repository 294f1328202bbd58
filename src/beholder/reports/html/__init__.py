"""A run as one HTML file that opens from disk: see `page.write_report`."""
