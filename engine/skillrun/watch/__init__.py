"""`skillrun dev`: checks files when they change, evaluates the run again, and shows the differences."""
