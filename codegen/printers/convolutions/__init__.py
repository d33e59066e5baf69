"""Printers of convolutions and pooling in C."""
