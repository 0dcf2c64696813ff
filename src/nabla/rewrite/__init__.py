"""Plan to plan: queries made cheaper without changing what they mean."""
