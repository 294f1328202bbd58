# `make demo` and `make test` do all the set-up on a fresh machine; each makes its own virtual environment in .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check bench pictures clean

demo: .venv/core
	@echo "── The brief that a judge would get (first lines; --plan asks nobody)"
	@$(BIN)/beholder judge edit-preservation examples/demo/before.png examples/demo/after.png \
		--set instruction="make the car red" --plan > .venv/brief.txt
	@head -n 14 .venv/brief.txt
	@echo "── … and $$(wc -l < .venv/brief.txt) lines in all"
	@echo
	@echo "── Recorded answers, checked and scored: what the judge added up wrongly is corrected, what is broken has no score"
	@$(BIN)/beholder score examples/demo/restyle.jsonl --rubric restyle --format card
	@$(BIN)/beholder score examples/demo/description.jsonl --rubric description --gate hallucinations --format card
	@$(BIN)/beholder score examples/demo/edit.jsonl --rubric edit-preservation --format card || test $$? -eq 3
	@echo
	@echo "Next, with a model of yours (the key is read from the environment):"
	@echo "  $(BIN)/beholder judge edit-preservation examples/demo/before.png examples/demo/after.png \\"
	@echo "      --set instruction=\"make the car red\" --judge openai:gpt-5-mini"

test: .venv/test
	$(BIN)/pytest -n 2

check: .venv/test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# ROUNDS=5 for steadier medians; QUICK=1 for a look in a minute and a half.
bench: .venv/test
	$(BIN)/python benchmarks/run.py $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS))

pictures: .venv/test
	$(BIN)/python docs/pictures.py

clean:
	rm -rf .venv

.venv/core: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv/test: .venv/core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@
