"""Plans before runs: definitions compared by what they mean, and views that are defined without being built."""
