"""The contract between the messaging service and its clients, which both import; neither imports the other.

    requests   bodies and queries       routes   method and path of each call, with its request,
    responses  bodies of answers                 its answer, its errors and an example
    headers    of answers               openapi  all of it as the document served at /openapi.json
    error_codes, errors                 message_id

The server decodes requests and encodes responses, a client encodes requests and decodes responses, of the same types.
"""
