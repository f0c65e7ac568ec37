"""What makes a site of `docs/`: pages made of the program's own tables, and the folder that a generator reads."""
