"""One member's answer: who is asked, with which tools, through the one door, within the budget.

Owns a call from its request to its reply. Knows no verb and no phase's steps.
"""
