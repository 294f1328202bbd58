"""Reports: runs, comparisons, agreement and exams as HTML, Markdown, JUnit and text for a terminal.

- `run_data`: the data of a run, collected in one pass; `summary`: what the report and the web app show of it
- `html_report`: a run as one HTML file; `charts`: its SVG charts; `plots`: charts of the web app whose marks are links
- `ci`: a run or a comparison as Markdown and as JUnit XML
- `comparison`: a comparison of two runs in sentences and rows; `matrix`: runs or models side by side
- `agreement`: the tables of `beholder agree`
- `cards`: verdicts and report cards for a terminal
- `text`: untrusted text made safe to show, titles for keys, numbers, intervals and tables
"""
