"""What a role is: exchanges, blame, the agreement on a plan, and what was said."""
