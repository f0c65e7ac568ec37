"""Pure functions over what members said: how far they agree, what repeats, what fits a budget. Nothing here does I/O."""
