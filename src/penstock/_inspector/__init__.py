"""The inspector: a web page that shows live and recorded streams, and its API. docs/inspector.md.

`app.Inspector` wraps a gateway's application; `single_file.SingleFileApp` shows one file without a gateway.
"""
