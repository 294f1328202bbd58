"""Print what the core installation costs on disk, by package: `python benchmarks/install_size.py`."""

from __future__ import annotations

from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement


def find_core(name: str = "beholder") -> dict[str, Distribution]:
    """Return a package and what it requires without extras, by name."""
    found: dict[str, Distribution] = {}
    waiting = [name]
    while waiting:
        try:
            one = distribution(waiting.pop())
        except PackageNotFoundError:  # for other systems
            continue
        if (key := one.metadata["Name"].lower()) in found:
            continue
        found[key] = one
        required = [Requirement(text) for text in one.requires or ()]
        waiting += [each.name for each in required if each.marker is None or each.marker.evaluate({"extra": ""})]
    return found


def measure_size(package: Distribution) -> int:
    """Return the bytes of all files that were installed; bytecode counts where pip compiled it."""
    paths = (file.locate() for file in package.files or ())
    return sum(path.stat().st_size for path in paths if path.is_file())  # type: ignore[attr-defined]  # a real path


def main() -> None:
    sizes = {name: measure_size(package) for name, package in find_core().items() if name != "beholder"}
    for name, size in sorted(sizes.items(), key=lambda each: -each[1]):
        print(f"{size / 1e6:8.1f} MB  {name}")
    print(f"{sum(sizes.values()) / 1e6:8.1f} MB  {len(sizes)} packages")


if __name__ == "__main__":
    main()
