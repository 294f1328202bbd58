"""What people would say of a whole run, from a judge on all cases and people on a few."""
