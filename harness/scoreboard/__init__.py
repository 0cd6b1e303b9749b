"""The scoreboard: small programs on many Kafka clients, crashed at every failure point of
``check``, in one table.
"""
