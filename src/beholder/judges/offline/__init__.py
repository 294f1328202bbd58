"""How the judge `instruments` answers: one module a rubric, and what they share.

answering      which rubrics can be answered, and the answer to a brief
preservation   `edit-preservation`: three factors from how an edit and its input differ; editing: where
               the edit is; outside: what became of the rest
restyling      `restyle`, and rubrics whose assertions are `measured`; checks: what can be found out; looks: how a
               picture looks by itself
describing     `description`, from the expected descriptions
"""
