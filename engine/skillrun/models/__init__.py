"""Model calls: one request type, one gateway, and the providers behind it. Importing this package imports no provider."""
