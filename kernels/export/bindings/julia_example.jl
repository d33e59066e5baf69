# Runs the model @name@ once, on zeros: make -C .. -f library.mk lib@name@.so && julia example.jl [weights [threads]]
# This file has not been tested: hybrid's tests have no Julia.
include("@Name@.jl")

path = length(ARGS) > 0 ? ARGS[1] : "../@name@.weights"
threads = length(ARGS) > 1 ? parse(Int, ARGS[2]) : 1
model = @Name@.load(path, threads)
results = @Name@.run(model, (zeros(a.type, a.shape...) for a in @Name@.INPUTS)...)
for (y, a) in zip(results isa Tuple ? results : (results,), @Name@.OUTPUTS)
    println(a.name, ": ", join(first(vec(permutedims(y, ndims(y):-1:1)), 10), " "))
end
