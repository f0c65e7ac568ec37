"""The conversation with one member: requests, tools, repair of invalid replies, and the journal of calls."""
