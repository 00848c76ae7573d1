"""The contract between the messaging service and its clients, once; both import it and neither imports the other.

    requests   what is asked            routes   method and path of each call, with its request,
    responses  what is answered                  its answer, its refusals and an example
    headers    what stands beside it    openapi  all of it as the document served at /openapi.json
    error_codes, errors                 message_id

The server decodes requests and encodes responses, a client encodes requests and decodes responses, of the same types.
"""
