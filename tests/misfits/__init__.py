"""Ladder models that are declared wrongly: installed only while the checks are tested."""
