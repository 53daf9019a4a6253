"""Measurements and pictures: closed loops, comparisons, timings; imported by no other room."""
