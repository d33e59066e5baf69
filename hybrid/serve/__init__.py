"""A server of models by the Open Inference Protocol, version 2, over HTTP: ``python -m hybrid.serve FOLDER``.

Its parts: ``folder`` finds models and reads what is written beside them, ``model`` runs one, ``rows`` decides which
programs of several rows give the bits of one row's program, ``batching`` gathers requests, ``wire`` reads and writes
tensors, ``application`` answers requests as an ASGI application, ``connection`` keeps slow clients from holding
connections, ``metrics`` counts for Prometheus. ``uvicorn`` speaks HTTP: ``pip install httptools uvicorn uvloop``.
"""
