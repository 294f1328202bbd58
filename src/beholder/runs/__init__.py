"""From cases to verdicts."""
