"""Imported before programs are forked: kafka-python compiles the code for a message when it first
encodes or decodes one, and without this each program did that anew, for 20 ms.
"""

from __future__ import annotations

from kafka.protocol import consumer, metadata, producer

for _module in (consumer, metadata, producer):
    for _name in [name for name in vars(_module) if name.endswith("Request")]:
        _request = getattr(_module, _name)
        _answer = getattr(_module, _name.replace("Request", "Response"))
        _request(version=_request.max_version).encode()
        _answer.decode(_answer(version=_answer.max_version).encode(), version=_answer.max_version)
