"""A client for services of other versions, run with the packages of one tree; not a test.

python messaging_client.py URL publish TEXT…      | read
"""

from __future__ import annotations

import sys

from fairlead_messaging import PATIENT, Client


def main(url: str, verb: str, *texts: str) -> None:
    client = Client(url, retries=PATIENT)
    if verb == "publish":
        client.create_topic("shop", "orders", {"ttl": 86400})
        client.publish("shop", "orders", [text.encode() for text in texts])
    for message in client.messages("shop", "orders"):
        print(message.payload.decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
