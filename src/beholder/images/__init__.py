"""Read images safely and prepare them for a judge. Importing this package loads no codec and no network library."""
