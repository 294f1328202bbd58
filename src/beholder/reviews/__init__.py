"""Reviews: people rate the cases of a run, without seeing what the judge said.

- `review`: who rates which run, and in which order; starting and resuming a review
- `queue`: blind labels, the next case, and progress
- `sheet`: what a person is asked about a case, and scoring and saving the answers
- `ratings`: the ratings as columns of numbers, their export as CSV, and import from a file
- `agreement`: agreement of one rater with the judge
"""
