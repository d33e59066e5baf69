# make builds the example program with rustc alone; make run ARGS="../@name@.weights 4" runs it.
all: example

include ../library.mk
RUSTC ?= rustc

example: example.rs @name@.rs ../lib@name@.a
	$(RUSTC) --edition 2021 -O -L .. -l static=@name@ -l m example.rs -o $@

.PHONY: run
run: all
	@./example $(ARGS)
