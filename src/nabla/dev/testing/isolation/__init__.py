"""Histories of concurrent transactions, recorded through the public interface and checked for anomalies."""
