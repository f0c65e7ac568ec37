"""Commands for authors: copy and update built-in files; print hints, schemas, sizes and the authoring skill."""
