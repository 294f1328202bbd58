# `make demo` and `make test` do all the set-up on a fresh machine; each makes its own virtual environment in .venv.
PYTHON ?= python3
# On Windows run make from a shell with the usual tools (Git Bash has them), with PYTHON=python.
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)

.PHONY: demo test test-fast check dist bench bench-scale alignment pictures clean

demo: .venv/demo
	@$(BIN)/beholder demo build/demo
	@echo
	@echo "── Answers that were recorded, checked and scored: what a judge added up wrongly is corrected, what is broken has no score"
	@$(BIN)/beholder score examples/demo/restyle.jsonl --rubric restyle
	@$(BIN)/beholder score examples/demo/description.jsonl --rubric description --gate hallucinations
	@$(BIN)/beholder score examples/demo/edit.jsonl --rubric edit-preservation --format card || test $$? -eq 3
	@echo
	@echo "The commands under Next work after: . $(BIN)/activate"

# Bytecode is kept whatever the machine's habit: the tests start some hundred processes of ours.
test: .venv/test
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 4 --dist worksteal

# For the edit loop: no browser, PostgreSQL, Ray or tests that start many processes.
test-fast: .venv/test
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 2 --dist worksteal -m "not slow"

check: .venv/test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --num-workers 2

# The source distribution and the wheel, in dist/.
dist: .venv/core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build
	$(BIN)/python -m build

# ROUNDS=5 for steadier medians; QUICK=1 for a look in a minute and a half.
bench: .venv/test
	PYTHONDONTWRITEBYTECODE= $(BIN)/python benchmarks/run.py $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS))

# A hundred thousand cases end to end, and Ray on two nodes of this machine. MILLION=1: also a case file of a million lines.
bench-scale: .venv/test
	PYTHONPATH=benchmarks OMP_NUM_THREADS=1 $(BIN)/python -m scale --ray $(if $(MILLION),--million)

# How far measurements agree with people. FIT=dir DATA=dir: fitted on the one, tested on the other; WRITE=1 commits the fit.
alignment: .venv/test
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/alignment/run.py $(if $(FIT),--fit $(FIT)) $(if $(DATA),--data $(DATA)) $(if $(WRITE),--write)

pictures: .venv/test
	$(BIN)/python docs/pictures.py
	$(BIN)/python docs/screenshots.py
	$(BIN)/python docs/tour.py

clean:
	rm -rf .venv

.venv/core: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv/demo: .venv/core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo]'
	@touch $@

.venv/test: .venv/core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@
