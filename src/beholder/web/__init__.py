"""The local web app: `beholder view`.

app          create_app: the FastAPI app for one ledger, with its style sheets and scripts
security     checks of host, origin and token, and security headers
server       socket, uvicorn, browser, cache warming
responses    what every page uses: the ledger, templates, errors as sentences
background   results that are computed in the background and cached, progress of runs
review_form  the form of a review; nothing a judge said is reachable there
pages/       routes: runs and comparison, gallery, case and images, agreement and calibration, review
"""
