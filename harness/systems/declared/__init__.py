"""Run pipelines that users declare, on a broker behind the wire."""
