"""MXNet's small modules: kvstore, monitor, profiler, executor, initializer, data iterators and others."""
