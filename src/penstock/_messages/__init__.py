"""Requests between formats: `convert_messages` for a VS Code host, `convert` for whole bodies of any protocol."""
