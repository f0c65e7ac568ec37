"""The check of one step: what it needs, asks and reads, and what its id gives to later steps.

`steps` names the function for each verb. What holds for whole phases and workflows is not looked at here.
"""
