"""Questions on their way to a person and back: asked by the round, forms that are read again, files that are brought.

Owns what becomes of an answer; who answers, and how it is asked, is for `people`.
"""
