"""What there is: records, histories, places, scenarios, cells, plans. Nothing here opens a
connection.
"""
