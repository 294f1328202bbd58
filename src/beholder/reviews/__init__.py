"""Reviews: people rate the cases of a run, without seeing what the judge said.

- `review`: who rates which run; starting and resuming a review; its queue: blind labels, the next case, progress
- `sheet`: what a person is asked about a case, and scoring and saving the answers
- `ratings`: the ratings as columns of numbers, their export as CSV, import from a file, agreement with the judge
"""
