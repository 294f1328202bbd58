"""Cases: what is judged, and the files and patterns that they are read from.

- `case`: a case, the images and fields that a rubric needs of it, and a row of a case file
- `files`: case files row by row: JSONL, CSV, TSV, Parquet
- `sources`: cases of any source, which can be read several times; datasets, frames and iterables too
- `patterns`: cases from files that match patterns, or from two folders
- `validation`: selecting rows, and checking all cases before the first call
"""
