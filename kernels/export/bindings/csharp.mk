# make builds the library and the example program with Mono; make run ARGS="../@name@.weights 4" runs it. With .NET:
# a project with @Name@.cs and Example.cs, and lib@name@.so beside the program.
all: ../lib@name@.so example.exe

include ../library.mk
CSC ?= mcs

example.exe: @Name@.cs Example.cs
	$(CSC) -nologo -out:$@ $^

.PHONY: run
run: all
	@LD_LIBRARY_PATH=.. mono example.exe $(ARGS)
