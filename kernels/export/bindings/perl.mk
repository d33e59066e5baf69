# make builds the library, FFI::Platypus (Debian: libffi-platypus-perl) calls it; make run ARGS="../@name@.weights 4"
# runs the example.
all: ../lib@name@.so

include ../library.mk

.PHONY: run
run: all
	@perl -I. example.pl $(ARGS)
