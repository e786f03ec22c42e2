"""Readers of provider streams that owe nothing to penstock: the vendors' own SDKs, a stream's own final snapshot, and
what other libraries assert of it. Each module gives `outcomes(body)`, a list with one Outcome per message in the body.
"""
