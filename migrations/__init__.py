"""Alembic migrations: the only place that changes the ledger's schema. SQL functions: one file each in `sql/`."""
