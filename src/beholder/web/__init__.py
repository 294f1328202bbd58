"""The local web app: `beholder view`.

app          create_app: the app for one ledger
security     who may ask, from where, and what a page may do
serving      a port, the server, the browser
answering    what every page uses: the ledger, templates, errors as sentences
assets       style sheets and scripts, from memory
briefs       what a judge was told of a case
standings    how far each run is
warming      what the first visitor need not wait for
computing    what takes longer than a page may: worked out aside, kept
pages/       one module for each page
"""
