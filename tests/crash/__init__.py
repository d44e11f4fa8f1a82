"""What is left when a process, or the server, is gone from one moment to the next."""
