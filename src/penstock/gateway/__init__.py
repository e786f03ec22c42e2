"""The gateway: one server that real clients can point at. For now it plays packaged streams."""

HOST = "127.0.0.1"
PORT = 4480
