"""The page's model: plain data made from a saved run, which the templates draw. Nothing here knows
of HTML.
"""
