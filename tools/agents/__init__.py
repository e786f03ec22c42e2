"""Coding agents through the gateway, compared with direct runs against a strict upstream: `make agents`."""
