/* How many threads a call uses, 1 at first. Not while a call runs. */
int @name@_set_threads(@name@_model *model, int threads);

/* One training step: computes the outputs and changes the model's weights and its optimizer's states. An error code. @RATE_SAID@
 * No other call may use the model meanwhile. */
int @name@_step(@name@_model *model@TYPED@);
/* The same with arrays in tables, in memory of the caller's, of @name@_workspace_bytes: nothing is allocated. */
int @name@_step_in(@name@_model *model, void *workspace, const void *const *inputs, @RATE@void *const *outputs);
size_t @name@_workspace_bytes(const @name@_model *model);

/* Writes the weights, the optimizer's states and the count of steps, in the form that @name@_load reads; Python reads it with
 * hybrid.export.load_weights. The file appears whole or not at all. */
int @name@_save(const @name@_model *model, const char *path);
/* How many steps the weights have made. */
int64_t @name@_updates(const @name@_model *model);@SEED_SAID@
