"""Where actions run: sandbox, simulated and real-device environments behind one interface."""
