"""`penstock.Client`: one interface to every provider, for Python programs."""
