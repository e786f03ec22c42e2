"""Messages between formats."""
