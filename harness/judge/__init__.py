"""The judge of a history: account, crosschecks, verdict. It knows no engine."""
