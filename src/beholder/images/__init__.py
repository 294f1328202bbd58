"""Reading images safely and preparing them for a judge; importing it loads no codec and no network library."""
