"""A small suite to try Beholder on: photographs or drawings, restyled, edited and described by us.

The photographs come with other packages; where these are missing, drawings of ours take their place. Half of the cases
are bad in a known way, so that one can see what a judge finds.

- `photos`: the photographs, and the filters that paint and retouch them; `cases`: the cases with their flaws
- `drawings`, `drawn_cases`: the drawings, and their cases
- `suite`: writes the demo into a folder, and summarizes what a judge caught and missed
"""
