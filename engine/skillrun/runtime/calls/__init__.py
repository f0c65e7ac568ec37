"""Conducts the conversation with one member: sends requests, runs tools, repairs invalid replies, journals calls."""
