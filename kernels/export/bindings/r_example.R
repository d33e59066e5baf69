# Loads @name@.weights, runs the model once and prints the first numbers of each output.
#
#     make && Rscript example.R ../@name@.weights [threads [input.bin ... [output.bin ...]]]
#
# input.bin: an input's elements as they are in memory, in C order (NumPy: x.tofile("input.bin")); zeros without it.
# output.bin: where an output goes, in the same form.
dyn.load(paste0("@name@_r", .Platform$dynlib.ext))
source("@name@.R")

args <- commandArgs(trailingOnly = TRUE)
bytes <- c(float32 = 4, float64 = 8, int64 = 8, int32 = 4, int16 = 2, int8 = 1, uint64 = 8, uint32 = 4, uint16 = 2,
           uint8 = 1, bool = 1, float16 = 2, bfloat16 = 2)

# R reads and writes 64-bit and unsigned 32-bit integers as words of 32 bits.
words <- function(dtype) if (dtype %in% c("int64", "uint64", "uint32")) 4 else bytes[[dtype]]

argument <- function(place, array) {
  size <- prod(array$shape)
  dtype <- array$dtype
  if (length(args) < place) {
    values <- numeric(size)
  } else {
    count <- file.size(args[place])
    if (is.na(count)) stop(args[place], ": the file cannot be opened", call. = FALSE)
    kind <- if (dtype %in% c("float32", "float64")) "numeric" else "integer"
    values <- readBin(args[place], kind, count / words(dtype), words(dtype),
                      signed = words(dtype) > 2 || dtype %in% c("int16", "int8"))
    if (dtype %in% c("int64", "uint64", "uint32")) {
      high <- if (dtype == "uint32") 0 else values[c(FALSE, TRUE)]
      low <- as.double(if (dtype == "uint32") values else values[c(TRUE, FALSE)])
      values <- high * 2^32 + ifelse(low < 0, low + 2^32, low)
    }
  }
  if (length(values) == size && length(array$shape) > 1) aperm(array(values, rev(array$shape))) else values
}

result <- function(place, array, values) {
  values <- as.vector(if (length(dim(values)) > 1) aperm(values) else values)
  cat(array$name, ": ", paste(head(values, 10), collapse = " "), "\n", sep = "")
  if (length(args) < place) return(invisible())
  if (array$dtype %in% c("int64", "uint64", "uint32")) {
    signed <- function(x) as.integer(ifelse(x >= 2^31, x - 2^32, x))
    parts <- signed(values %% 2^32)
    if (array$dtype != "uint32") parts <- as.vector(rbind(parts, signed(floor(values / 2^32) %% 2^32)))
    values <- parts
  } else if (!array$dtype %in% c("float32", "float64")) {
    values <- as.integer(values)
  }
  writeBin(values, args[place], words(array$dtype))
}

status <- tryCatch({
  model <- @name@_load(if (length(args) > 0) args[1] else "../@name@.weights",
                       if (length(args) > 1) as.integer(args[2]) else 1L)
  given <- Map(function(i, array) argument(i + 2, array), seq_along(@name@_inputs), @name@_inputs)
  results <- do.call(@name@_run, c(list(model), given))
  if (length(@name@_outputs) == 1) results <- list(results)
  for (i in seq_along(results)) result(i + 2 + length(given), @name@_outputs[[i]], results[[i]])
  0
}, error = function(e) {
  message(conditionMessage(e))
  1
})
quit(status = status)
