"""ATIF, the Agent Trajectory Interchange Format, in and out, and its linter."""
