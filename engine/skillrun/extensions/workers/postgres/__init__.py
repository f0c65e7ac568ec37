"""The store in Postgres: journal, files, leases, queue, and the roster of workers.

A run's row says which worker holds the run and which epoch may write. Only this package sends SQL.
"""
