"""Model calls: one request type, one gateway, the providers behind it. Importing this package imports no provider."""
