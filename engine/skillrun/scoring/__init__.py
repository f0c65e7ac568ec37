"""Pure functions over what members said: how far they agree, what repeats, what fits a budget. No input or output."""
