"""The gateway: an HTTP server that speaks the protocols of many clients and forwards to many providers."""

HOST = "127.0.0.1"
PORT = 4480
