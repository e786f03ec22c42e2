"""The providers, their models and their clients, as data. The rows are TOML; nothing here asks anybody anything."""
