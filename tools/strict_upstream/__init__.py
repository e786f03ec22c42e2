"""A scripted model that checks requests as the vendors do: Chat, Responses, Messages and Gemini.

It shares no code with penstock. Request types come from the vendors' own Python SDKs, the rules between messages and
the error bodies from their documentation. See `docs/agents.md`.
"""
