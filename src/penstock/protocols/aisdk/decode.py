"""`fullStream` and `doStream` parts → events, whatever the version. All of the reading is in `penstock.aisdk`."""

from penstock.aisdk.decode import ChunkDecoder


class AisdkDecoder(ChunkDecoder):
    """Also reads UI message chunks: programs in the wild mix the spellings."""

    protocol = "aisdk"
