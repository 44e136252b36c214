"""Features on common scales before they are clustered: `Standardize` or `Range`, in `Scaled`.

    secfc.fit(secfc.Scaled(secfc.SecFC(k=4, threshold=1)), federation)
    # or fit(..., scale_features="standard")

What is opened, and to whom, says README.md beside this file.
"""
