"""Arrays and the memory they lie in: NDArray, the tape's slots, writes, evicted buffers."""
