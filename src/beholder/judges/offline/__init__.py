"""The judge `instruments`: answers from measurements, without a model.

judge          the judge, which rubrics it can answer, and the answer to `description`
preservation   `edit-preservation`: three factors from what differs outside of the edit
restyle        `restyle`, and other rubrics of two images whose assertions say how they are `measured`
"""
