"""Calls to models: one request type, one gateway, and the providers. Importing this package imports no provider."""
