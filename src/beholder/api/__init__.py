"""The public Python API.

- `judge`: `judge`, `judge_all`, and both for asynchronous code
"""
