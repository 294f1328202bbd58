"""The arena: models ranked by votes on which of two outputs is better, and judges' votes beside those of people.

- `votes`: votes as NumPy columns, read from CSV and JSONL files in the form of the public boards, written as CSV
- `davidson`: maximum-likelihood fit of Bradley–Terry with ties (Davidson), for many bootstrap draws at once
- `fit`, `leaderboard`: `beholder arena fit`: ratings, rank ranges and probabilities with intervals, and the gate
- `agreement`: `beholder arena agree`: the votes of judges against those of people

Importing this package loads nothing; its modules load NumPy.
"""
