"""Event → event stages that make a stream fit its consumer."""
