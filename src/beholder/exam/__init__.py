"""The exam that a judge sits: papers with known truth, the sitting, the report card.

    papers                                 sets an exam: pictures and a case file in a folder
    edit_papers, restyles, descriptions    what the papers of each rubric are, and what each should lower
    edits, damage, injections, facts       what they are made of: clean edits, graded damage, texts, truths
    photographs, files, paper              where photographs come from, how pictures are written, the words of it all
    sitting, variants, planning            papers laid before a judge, also a second time and in another dress; the cost
    reading, desk                          what the judge said, laid out for marking
    examining, repeating, detection, noticing    what that tells of a criterion
    marking, card                          marks with their pass marks

An exam is an ordinary run. Its cases carry their truth in their groups, which no judge sees.
"""
