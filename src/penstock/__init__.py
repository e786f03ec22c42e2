"""penstock: any model's stream in, exactly what a client expects out."""

from penstock._version import __version__

__all__ = ["__version__"]
