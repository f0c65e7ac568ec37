"""Workers: execute runs from a shared Postgres store. Also provides queues, limits on parallel calls, and telemetry.

Only the run's row in the store says which worker executes the run.
"""
