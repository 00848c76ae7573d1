"""What every program shares at its rim: settings files, JSON logs, mutual TLS."""
