# make builds the example program; make run ARGS="../@name@.weights 4" runs it.
all: example

include ../library.mk

example: example.cpp ../@name@.hpp ../lib@name@.a
	$(CXX) -std=c++17 -O2 -I.. $< ../lib@name@.a -o $@ $(LIBRARIES)

.PHONY: run
run: all
	@./example $(ARGS)
