"""The public Python API.

- `judge`: `judge` and `judge_rubrics`, both for asynchronous code too, and `make_briefs`
- `session`: `Session`, for many calls; `async_session`: `AsyncSession`, the same on one's own event loop
- `options`: `Options`, and how the inputs of a call become a case
- `run`: `Run`, a run in a ledger; `execute`: `run`, `plan`, `collect`
- `score`: recorded answers, and human ratings of a run; `checks`: `measure` and `doctor`; `exam`: `qualify`
"""
