"""The benchmark: skillrun and its peers, measured together on one machine. `make bench` prints the table."""
