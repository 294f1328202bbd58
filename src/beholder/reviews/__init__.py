"""Reviews: people rate the cases of a run, without seeing what the judge said."""
