"""How providers are reached: `native` (aiohttp and our codecs), `sdk` (the vendors' own clients), and what chooses.

`options` are what every call may set, `routing` decides who is asked and what happens when that fails, `auth` shows who
asks. Below the line: IO, clocks, chance. Nothing heavy is imported before it is used.
"""
