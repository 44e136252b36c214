"""Labels that stay shared from the first step to the last, and are opened to the owners of their points."""
