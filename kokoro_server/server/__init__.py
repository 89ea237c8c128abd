"""The server: the application, its processes, and the messages between them."""
