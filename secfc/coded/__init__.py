"""Computing on coded rows: the plan, who contributes which, sharing and testing them, decoding, and blame."""
