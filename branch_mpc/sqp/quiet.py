"""Warp without its greeting: standard output belongs to the command that was called."""

import os

import warp as wp


def start_warp_quietly() -> None:
    """Initialise Warp without a banner, without a line per compiled module and without a warning that there is no GPU.

    Which device is used, or that one is missing, is for the caller to say.
    """
    if hasattr(wp.config, "log_level"):
        wp.config.log_level = wp.LOG_ERROR
    else:  # before Warp 1.19
        wp.config.quiet = True
    # The missing driver is reported by native code, which knows nothing of the log level.
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        wp.init()
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
