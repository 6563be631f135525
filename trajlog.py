"""trajlog's module for other people's processes: the standard library alone, nothing of trajlog's rooms.

A planner will use it to record its episodes through a `trajlog stream` process that it starts. That
client is not written yet; until then the module gives the version.
"""

__version__ = "0.1.0"
