"""The language server: what an editor is told about the files of a project. Runs nothing of theirs."""
