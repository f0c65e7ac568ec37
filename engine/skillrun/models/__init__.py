"""Model calls: the request type, the gateway and the providers. Importing this package imports no provider SDK."""
