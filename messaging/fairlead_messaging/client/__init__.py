"""The client's side of the service: requests, retries, iteration, transactions."""
