# The model @name@ in R: dyn.load("@name@_r.so"); source("@name@.R"); model <- @name@_load("@name@.weights");
# y <- @name@_run(model, x). Arrays are R's own, with the model's axes: x[1, 2] is the second element of the first row.
@name@_inputs <- list(
@INPUTS@)
@name@_outputs <- list(
@OUTPUTS@)

# The model with the weights of a file; each call uses so many threads.
@name@_load <- function(path, threads = 1L) {
  tryCatch(.Call("@name@_r_load", as.character(path), as.integer(threads)),
           error = function(e) stop(conditionMessage(e), call. = FALSE))
}

# Elements in the order of C, whose last axis is contiguous; R's first is.
.@name@_elements <- function(x, array) {
  shape <- array$shape
  if (!is.numeric(x) && !is.logical(x)) stop(array$name, " has numbers, got ", class(x)[1], call. = FALSE)
  if (length(x) != prod(shape)) {
    stop(array$name, " has ", format(prod(shape), scientific = FALSE), " elements, got ", length(x), call. = FALSE)
  }
  rows <- if (is.null(dim(x))) length(x) else dim(x)
  if (!identical(as.double(rows), as.double(shape)) && (!is.null(dim(x)) || sum(shape != 1) > 1)) {
    stop(array$name, " has shape ", paste(shape, collapse = " x "), ", got ", paste(rows, collapse = " x "),
         call. = FALSE)
  }
  as.double(if (length(dim(x)) > 1) aperm(x) else x)
}

.@name@_shaped <- function(values, array) {
  if (array$dtype == "bool") values <- as.logical(values)
  if (length(array$shape) > 1) aperm(array(values, rev(array$shape))) else values
}

# Computes the outputs from the inputs: an array, or a list of arrays where there are several.
@name@_run <- function(model, ...) {
  given <- list(...)
  if (length(given) != length(@name@_inputs)) {
    stop("@name@ has ", length(@name@_inputs), " inputs, got ", length(given), call. = FALSE)
  }
  elements <- unname(Map(.@name@_elements, given, @name@_inputs))
  results <- tryCatch(.Call("@name@_r_run", model, elements),
                      error = function(e) stop(conditionMessage(e), call. = FALSE))
  shaped <- Map(.@name@_shaped, results, @name@_outputs)
  if (length(shaped) == 1) return(shaped[[1]])
  names(shaped) <- vapply(@name@_outputs, function(a) a$name, "")
  shaped
}
