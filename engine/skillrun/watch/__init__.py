"""`skillrun dev`: watches files, checks them, evaluates the run again over its journal, and shows what changed."""
