"""Hot reload: watch the files, check again, evaluate again over the journal, say what changed."""
