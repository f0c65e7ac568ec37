"""Commands for authors of libraries: copy and update built-in files, print the authoring skill, schemas and sizes."""
