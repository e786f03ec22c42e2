"""The version of the package; read by the build, imported by nothing heavy."""

__version__ = "0.1.0"
