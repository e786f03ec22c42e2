"""HTTP/1.1 transport code shared by the engines and the gateway. No module here knows a provider or a protocol."""
