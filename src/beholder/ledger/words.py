"""The words that verdicts, answers and cases have in common, as zlib's preset dictionary.

An edit verdict takes 530 bytes with it and 940 without, and no longer to pack. It is part of the file format: nothing
that was written can be read without these very bytes, so they never change. A better dictionary would be a second one,
told from this one by the checksum that zlib keeps in front of the data.
"""

from __future__ import annotations

# What is most common comes last, where zlib reaches it with the shortest distance.
WORDS = (
    b'{"criteria":{"accuracy":{"assertions":{"A1":{"answer":"Yes","evidence":"The "},"score":4,"reason":"T'
    b'he "},"unchanged_regions":{"justification":"The ","score":6}},"assessment":"","strengths":[],"improv'
    b'ements":[],"hallucinations":[],"missing_elements":[]}```json\n{"criteria": {"unchanged_regions": {"ju'
    b'stification": "The ", "score": 6}, "global_consistency": {"justification": "The ", "score": 6}, "ide'
    b'ntity_preservation": {"justification": "The ", "score": 6}}}{"id":"","images":{"original":"/home/","'
    b'restyled":"/home/","image":"/home/","input":"/","edited":".png"},"fields":{"style":"","instruction":'
    b'"make the ","output":"","expected_output":""}}"tie""repaired""empty_reason""reason_length""not_appli'
    b'cable""question_differs""interrupted""over_budget""unreadable""unreachable""invalid""truncated""filt'
    b'ered""refused","answer":"","jury":{"answered":,"failed":,"spread":{"score":},"agreement":,"jurors":['
    b'{"judge":"","sample":0,"outcome":"scored","score":0.,"criteria":{},"detail":"","model":""}]},"visual'
    b'_accuracy":"completeness":"clarity":"relevance":"usefulness":"exceptional":"accuracy":{"score":4,"re'
    b'ported":4,"scale":[1,5],"weight":1.0,"reason":"","yes":4,"no":1,"not_applicable":0,"assertions":[{"i'
    b'd":"A1","question":"","answer":"no","evidence":"","confidence":null},{"id":"C1","question":"Does the'
    b' ","answer":"yes","evidence":"","confidence":null},{"id":"R1","question":"Is the ","answer":"yes","e'
    b'vidence":"The ","confidence":null},{"id":"U1"},{"id":"E1"}]},"findings":{"hallucinations":[],"missin'
    b'g_elements":[],"strengths":[],"improvements":[]},"flags":[{"flag":"","at":"","said":null,"why":""}],'
    b'"corrections":[{"at":"accuracy.score","said":5,"stands":4,"why":"computed from the answer"}],{"case"'
    b':"","rubric":"edit-quality","rubric":"edit-fidelity","rubric":"description","rubric":"restyle","rubr'
    b'ic":"edit-preservation","rubric_version":"1.0","judge":"anthropic:claude-","judge":"google:gemini-",'
    b'"judge":"openai:gpt-","outcome":"scored","setting":"offline","setting":null,"style":"","setting":"on'
    b'line","style":null,"model":"","detail":"","criteria":{"scale_realism":"spatial_relationship":"textur'
    b'e_and_detail":"image_quality":"colour_and_lighting":"seamlessness":"alignment":"completeness":"plaus'
    b'ibility":"unchanged_regions":{"score":5,"reported":5,"scale":[1,7],"weight":1,"reason":"The ","yes":'
    b'0,"no":0,"not_applicable":0,"assertions":[]},"global_consistency":{"score":6,"reported":6,"scale":[1'
    b',7],"weight":1,"reason":"","yes":0,"no":0,"not_applicable":0,"assertions":[]},"identity_preservation'
    b'":{"score":5,"reported":5,"scale":[1,7],"weight":1,"reason":"","yes":0,"no":0,"not_applicable":0,"as'
    b'sertions":[]}},"total":17.5,"max_total":25.0,"percentage":70.0,"grade":"B","score":0.7,"score_derive'
    b'd":false,"partial":false,"passed":true,"total":null,"max_total":null,"percentage":null,"grade":null,'
    b'"score":0.,"score_derived":true,"partial":false,"passed":null,"findings":{},"assessment":"","reporte'
    b'd":{},"flags":[],"corrections":[],"measurements":{},"jury":null,"images":[{"role":"original","role":'
    b'"restyled","role":"image","role":"target","role":"input","digest":"","width":1600,"height":1200,"byt'
    b'es":,"scaled":true,"media_type":"image/png","scaled":false,"media_type":"image/jpeg","source_digest"'
    b':"","source_width":1600,"source_height":1200,"source_format":"png"},{"role":"edited","source_format"'
    b':"jpeg"}],"usage":{"input_tokens":,"output_tokens":,"cached_tokens":0},"cost_usd":"0.00","latency_s"'
    b':,"attempts":1,"brief_digest":""}'
)
