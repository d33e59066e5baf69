# make builds the library for R; make run ARGS="../@name@.weights 4" runs the example.
all: @name@_r.so

include ../library.mk

@name@_r.so: @name@_r.c ../lib@name@.a
	PKG_CPPFLAGS=-I.. PKG_LIBS="../lib@name@.a $(LIBRARIES)" R CMD SHLIB -o $@ @name@_r.c

.PHONY: run
run: all
	@Rscript --vanilla example.R $(ARGS)
