# The model @name@ in Julia: include("@Name@.jl"); model = @Name@.load("@name@.weights"); y = @Name@.run(model, x).
# Arrays are Julia's own, with the model's axes: x[1, 2] is the second element of the first row.
# This file has not been tested: hybrid's tests have no Julia.
module @Name@

const LIBRARY = joinpath(@__DIR__, "..", "lib@name@.so")
const INPUTS = [
@INPUTS@]
const OUTPUTS = [
@OUTPUTS@]

struct Failure <: Exception
    code::Cint
    what::String
end
Base.showerror(io::IO, e::Failure) = print(io, e.what)

words(code) = unsafe_string(ccall((:@name@_error_text, LIBRARY), Cstring, (Cint,), code))
checked(code, what) = code == 0 ? nothing : throw(Failure(code, string(what, ": ", words(code))))

mutable struct Network
    handle::Ptr{Cvoid}
end

"The model with the weights of a file; each call uses so many threads."
function load(path::AbstractString, threads::Integer = 1)
    code = Ref{Cint}(0)
    handle = ccall((:@name@_load, LIBRARY), Ptr{Cvoid}, (Cstring, Ref{Cint}), path, code)
    handle == C_NULL && checked(code[], path)
    model = finalizer(Network(handle)) do m
        ccall((:@name@_free, LIBRARY), Cvoid, (Ptr{Cvoid},), m.handle)
    end
    checked(ccall((:@name@_set_threads, LIBRARY), Cint, (Ptr{Cvoid}, Cint), handle, threads), "@name@_set_threads")
    return model
end

"Elements in the order of C, whose last axis is contiguous; Julia's first is."
function elements(x::AbstractArray, array)
    length(x) == prod(array.shape) ||
        throw(DimensionMismatch("$(array.name) has $(prod(array.shape)) elements, got $(length(x))"))
    size(x) == array.shape || throw(DimensionMismatch("$(array.name) has shape $(array.shape), got $(size(x))"))
    return convert(Array{array.type}, permutedims(x, ndims(x):-1:1))
end

"Compute the outputs from the inputs: an array, or a tuple of arrays where there are several."
function run(model::Network, given::AbstractArray...)
    length(given) == length(INPUTS) ||
        throw(ArgumentError("@name@ has $(length(INPUTS)) inputs, got $(length(given))"))
    inputs = [elements(x, a) for (x, a) in zip(given, INPUTS)]
    outputs = [Array{a.type}(undef, reverse(a.shape)...) for a in OUTPUTS]
    GC.@preserve model inputs outputs begin
        code = ccall((:@name@_run, LIBRARY), Cint, (Ptr{Cvoid}, Ptr{Ptr{Cvoid}}, Ptr{Ptr{Cvoid}}), model.handle,
                     Ptr{Cvoid}[pointer(x) for x in inputs], Ptr{Cvoid}[pointer(y) for y in outputs])
    end
    checked(code, "@name@_run")
    results = Tuple(permutedims(y, ndims(y):-1:1) for y in outputs)
    return length(results) == 1 ? results[1] : results
end

end
