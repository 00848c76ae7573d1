"""Asking the Kubernetes API whose a token is.

token ─TokenReviewer─→ cache, or one review for all who ask at once ─→ ServiceAccount, None, or Unavailable
api_server   where the API is and how we show who we are: in-cluster files or a kubeconfig
"""
