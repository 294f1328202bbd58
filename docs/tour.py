"""Executes examples/tour.ipynb in a temporary folder and stores what it shows: `make pictures`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

TOUR = Path(__file__).parents[1] / "examples" / "tour.ipynb"


def main() -> None:
    notebook = nbformat.read(TOUR, as_version=4)
    with TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times, which differ from run to run
        for output in cell.get("outputs", ()):
            if "image/jpeg" in output.get("data", {}):  # Pillow shows a picture in both formats; this one is small
                output.data.pop("image/png", None)
    nbformat.write(notebook, TOUR)


if __name__ == "__main__":
    main()
