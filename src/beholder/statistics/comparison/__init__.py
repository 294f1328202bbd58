"""Two runs, case by case: what changed, what the data could have shown, and whether a build may pass."""
