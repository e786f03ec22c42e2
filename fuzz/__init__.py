"""Fuzzing: inputs made from the golden cases, changed at random, given to every decoder, reader and parser.

`targets` names what is fuzzed and what must hold, `mutation` changes inputs, `engine` runs one target, `workers` runs
many side by side, `report` writes the figures. Run it with `make fuzz MINUTES=10`; see docs/testing.md.
"""
