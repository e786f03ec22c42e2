"""The inspector: a page that shows streams, live and recorded, and what it asks the server for. docs/inspector.md.

`Inspector` stands before a gateway's application; `alone` shows one file without any gateway.
"""
