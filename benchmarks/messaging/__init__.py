"""The messaging service, beside NATS JetStream."""
