# make builds the example program; make run ARGS="../@name@.weights 4" runs it.
all: example/example

include ../library.mk

example/example: example/main.go @name@.go go.mod ../lib@name@.a
	go build -o $@ ./example

.PHONY: run
run: all
	@./example/example $(ARGS)
