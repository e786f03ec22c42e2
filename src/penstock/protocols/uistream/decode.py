"""UI message chunks → events. All of the reading is in `penstock.aisdk`."""

from penstock.aisdk.decode import ChunkDecoder


class UiDecoder(ChunkDecoder):
    """Ends with `finish`; a stream that has none ends with `[DONE]`."""

    protocol = "uistream"
