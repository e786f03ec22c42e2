"""Coding agents against the gateway, `make agents`: programs from npm, a scripted model, a word nobody can guess."""
