"""The AI SDK's language, which two protocols speak: `fullStream` parts (`aisdk`) and UI message chunks (`uistream`).

Their chunks share names and differ in spelling; programs in the wild mix the spellings. So both are read by one
decoder, and what both encoders need (usage, metadata, reasons) is written down here once.
"""
