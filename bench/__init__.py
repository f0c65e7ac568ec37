"""The benchmark: skillrun beside its peers, in one run on one machine. `make bench` prints the table."""
