"""Clustering where clients observe different, partly shared features (Maritan and Schenato).

Say where from: `from secfc.overlap.masked import MaskedLloyd`.
"""
