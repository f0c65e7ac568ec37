"""Gets answers to questions from prepared answers, defaults, the terminal and forms. Does not depend on runs."""
