/* How many threads a call uses, 1 at first. Not while a call runs. */
int @name@_set_threads(@name@_model *model, int threads);

/* Computes the outputs from the inputs; an error code. Any number of threads may call it with one model at the same time. */
int @name@_run(const @name@_model *model@SIZES_TYPE@, const void *const *inputs, void *const *outputs);
/* The same in memory of the caller's, of @name@_workspace_bytes: nothing is allocated. Each call that runs needs its own. */
int @name@_run_in(const @name@_model *model@SIZES_TYPE@, void *workspace, const void *const *inputs, void *const *outputs);
size_t @name@_workspace_bytes(const @name@_model *model@SIZES_TYPE@);
