"""What looks at the device: each module reads one thing and gives back facts."""
