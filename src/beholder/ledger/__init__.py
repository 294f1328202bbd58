"""The ledger keeps runs, cases, answers, verdicts and thumbnails; importing it loads no database library.

- `ledger`: `Ledger`, the one class that other packages use; `types`: the values that go in and come out
- `database`: where a ledger is, opening it, migrations; `sqlite`, `postgres`: the two backends
- `schema`: the tables
- `read`, `write`, `query`: reading and writing rows; filtering, sorting, paging and counting verdicts
- `encoding`: how values are stored
- `leases`: several processes at work on one run; `batch_jobs`: jobs submitted to providers
- `copy`, `export`, `integrity`: copying runs, exporting verdicts, checking a ledger
"""
